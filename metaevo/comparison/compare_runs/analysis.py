"""Every number of a comparison of runs, computed from their seeds."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from metaevo import statistics
from metaevo.comparison.compare_runs import curves, sources
from metaevo.comparison.compare_runs.grouping import (
    Group,
    change_together,
    differing,
    group,
    value_of,
    with_variants,
)
from metaevo.comparison.compare_runs.results import (
    EffectResult,
    GroupResult,
    Options,
    PairResult,
    RunComparison,
)
from metaevo.comparison.compare_runs.seed_run import EVALUATION, SeedRun
from metaevo.comparison.compare_runs.selection import Selection, select
from metaevo.config import ConfigError
from metaevo.reports.numbers import counted
from metaevo.statistics import Estimate, FloatArray, Paired

_ALL_PAIRS = 5
"""With more groups, only the best group is compared with the others."""
_MOST_KEYS, _MOST_VALUES = 12, 12
_BEST_POSSIBLE = {"CartPole-v1": 500.0, "Catch-bsuite": 1.0, "FourRooms-misc": 1.0}
"""Maximum mean returns of environments with their default parameters."""


def compare_runs(
    runs: Sequence[str | Path],
    *,
    metric: str | None = None,
    score: curves.Score = "final",
    group_by: Sequence[str] | None = None,
    align: str | None = None,
    threshold: float | None = None,
    optimum: float | None = None,
    full_length: bool = False,
) -> RunComparison:
    """Compare recorded runs by the settings in which they differ.

    Examples:
        >>> found = metaevo.compare_runs(["runs/ppo", "runs/ppo_fast"])
        >>> found.pairs[0].verdict
        >>> pandas.DataFrame(found.table("groups"))

    Args:
        runs: run directories, their parent folders, globs, `wandb:ENTITY/PROJECT[/RUN]`,
            `wandb:DIRECTORY`, `mlflow:URI#EXPERIMENT`.
        metric: a name in the records, or `evaluation[:VARIANT]` for scores of evaluation.json; by
            default the mean return, the fitness of the mean, or the best value of a sweep.
        score: how a curve is reduced to one number: the mean of its last tenth ("final") or of the
            whole curve ("area"), or its best point ("best").
        group_by: settings that form the groups; by default all that differ.
        align: "steps", "generations" or "seconds".
        threshold: score for the steps to threshold; defaults to 90% of the way to the top of the
            best curve.
        optimum: the score that the optimality gap is measured from.
        full_length: score every run at its own end instead of the last common point.

    Raises:
        ConfigError: if a run cannot be read, lacks the metric, or no run can be compared.
    """
    keys = None if group_by is None else tuple(group_by)
    options = Options(metric, score, keys, align, threshold, optimum, full_length)
    found, notes = sources.read_all([str(run) for run in runs])
    chosen = select(found, metric, align, full_length, notes)
    seeds = chosen.seeds
    if chosen.metric == EVALUATION:
        seeds = with_variants(seeds, chosen.variant)
    groups, best, best_is = _scored(group(seeds, keys), chosen, options, notes)
    sign = _shown_sign(chosen, best)
    pairs, comparisons = _pairs(groups, sign)
    efficiency = [
        row
        for task in sorted(chosen.ends)
        for row in curves.efficiency(
            task,
            {each.label: list(map(chosen.curve, each.group.on(task))) for each in groups},
            threshold,
            lower_is_better=chosen.lower_is_better,
        )
    ]
    return RunComparison(
        found, options, chosen, groups, pairs, comparisons, _effects(groups, sign), efficiency,
        best, best_is, notes,
    )  # fmt: skip


def _shown_sign(chosen: Selection, optimum: dict[str, float]) -> int:
    """Return -1 if shown values are the negated scaled scores."""
    return -1 if chosen.lower_is_better and len(optimum) == 1 else 1


# --- Scores -------------------------------------------------------------------------------------


def _scored(
    groups: Sequence[Group], chosen: Selection, options: Options, notes: list[str]
) -> tuple[list[GroupResult], dict[str, float], str]:
    """Return the groups, best first, and the best possible score of every task with its source.

    Raises:
        ConfigError: if no seed of a task has a score.
    """
    known = {id(seed): chosen.score(seed, options.score) for g in groups for seed in g.seeds}
    tasks = sorted({task for each in groups for task in each.tasks})
    for task in tasks:
        _note_missing([known[id(seed)] for g in groups for seed in g.on(task)], task, chosen, notes)
    complete = dict.fromkeys((each.label for each in groups), True)
    if not chosen.is_directed:
        complete = {g.label: all(np.isfinite(known[id(s)]) for s in g.seeds) for g in groups}
        groups = [Group(g.label, [s for s in g.seeds if np.isfinite(known[id(s)])]) for g in groups]
        groups = [each for each in groups if each.seeds]
    sign = -1.0 if chosen.lower_is_better else 1.0
    oriented: list[dict[str, FloatArray]] = [{} for _ in groups]
    scaled: list[dict[str, FloatArray]] = [{} for _ in groups]
    best: dict[str, float] = {}
    best_scaled: dict[str, float] = {}
    known_best, best_is = _known_optimum(tasks, chosen, options.optimum)
    for task in tasks:
        found = statistics.fill_missing(
            {
                place: sign * np.array([known[id(seed)] for seed in each.on(task)])
                for place, each in enumerate(groups)
                if task in each.tasks
            }
        )
        low, high = (end(np.concatenate([*found.values()])) for end in (np.min, np.max))
        start, width = (low, (high - low) or 1.0) if len(tasks) > 1 else (0.0, 1.0)
        for place, values in found.items():
            oriented[place][task] = values
            scaled[place][task] = (values - start) / width
        best[task] = known_best.get(task, float(sign * high))
        best_scaled[task] = float((sign * best[task] - start) / width)
    if len(tasks) > 1:
        notes.append(
            "several tasks: scores are scaled to 0 for the worst and 1 for the best seed of each "
            "task before they are pooled"
        )
    results, shown = [], _shown_sign(chosen, best)
    for each, scores, own in zip(groups, oriented, scaled, strict=True):
        strata = list(own.values())
        variances = [part.var(ddof=1) if len(part) > 1 else 0.0 for part in strata]
        results.append(
            GroupResult(
                each,
                {task: sign * part for task, part in scores.items()},
                own,
                complete[each.label],
                _signed(statistics.estimate(strata), shown),
                shown * float(np.concatenate(strata).mean()),
                float(np.sqrt(np.mean(variances))),
                statistics.optimality_gap(strata, [best_scaled[task] for task in own]),
                {task: statistics.estimate([sign * part]) for task, part in scores.items()},
            )
        )
    # All tables, legends and plots have this order.
    results.sort(key=lambda each: -shown * each.iqm.value)
    return results, best, best_is


def _known_optimum(
    tasks: Sequence[str], chosen: Selection, given: float | None
) -> tuple[dict[str, float], str]:
    """Return the best possible score by task, where it is known, and its source."""
    if given is not None:
        return dict.fromkeys(tasks, given), "given"
    if chosen.metric in ("mean_return", EVALUATION) and set(tasks) <= set(_BEST_POSSIBLE):
        return _BEST_POSSIBLE, "the best possible return"
    return {}, f"the {'lowest' if chosen.lower_is_better else 'highest'} score of any seed"


def _note_missing(values: Sequence[float], task: str, chosen: Selection, notes: list[str]) -> None:
    missing = int((~np.isfinite(values)).sum())
    if missing == len(values):
        raise ConfigError(f"no run has a value of {chosen.metric} yet")
    if missing:
        fate = "they count as the worst one" if chosen.is_directed else (
            f"they are left out, and no conclusion is drawn about their groups, because it is "
            f"unknown whether high or low values of {chosen.metric} are better"
        )  # fmt: skip
        on = f" on {task}" if task else ""
        notes.append(
            f"{missing} of {counted(len(values), 'seed')}{on} have no score (they diverged, or no "
            f"episode finished); {fate}"
        )


def _signed(estimate: Estimate, sign: int) -> Estimate:
    low, high = sorted(sign * each for each in estimate.interval)
    return Estimate(sign * estimate.value, (low, high))


# --- Pairs and effects --------------------------------------------------------------------------


def _common(first: GroupResult, second: GroupResult) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the scaled scores on the tasks that two groups have in common."""
    tasks = [task for task in first.scaled if task in second.scaled]
    return [first.scaled[task] for task in tasks], [second.scaled[task] for task in tasks]


def _pairs(ranked: Sequence[GroupResult], sign: int) -> tuple[list[PairResult], int]:
    """Return the pairs to show, better group first, and the number of all pairs."""
    every = [pair for pair in combinations(ranked, 2) if _common(*pair)[0]]
    adjusted = statistics.holm([statistics.rank_test(*_common(*pair)) for pair in every])
    shown = []
    for (first, second), p in zip(every, adjusted, strict=True):
        if len(ranked) > _ALL_PAIRS and first is not ranked[0]:
            continue
        x, y = _common(first, second)
        contrast = statistics.contrast(x, y)
        complete = first.complete and second.complete
        paired = _paired(first, second)
        shown.append(
            PairResult(
                first.label,
                second.label,
                (sum(map(len, x)), sum(map(len, y))),
                contrast._replace(difference=_signed(contrast.difference, sign)),
                p,
                statistics.verdict(contrast, p) if complete else "undecided",
                statistics.needed_runs(x, y, alpha=0.05 / len(every)),
                min(1.0, statistics.smallest_p(x, y) * len(every)),
                paired and paired._replace(difference=_signed(paired.difference, sign)),
                complete,
            )
        )
    return shown, len(every)


def _paired(first: GroupResult, second: GroupResult) -> Paired | None:
    """Compare seeds with the same name on the same task; None for fewer than two such pairs."""
    x, y = _by_name(first), _by_name(second)
    common: dict[str, list[tuple[str, str]]] = {}
    for key in x:
        if key in y:
            common.setdefault(key[0], []).append(key)
    if sum(map(len, common.values())) < 2:
        return None
    xs, ys = (
        [np.array([side[key] for key in keys]) for keys in common.values()] for side in (x, y)
    )
    return statistics.paired(xs, ys)


def _by_name(result: GroupResult) -> dict[tuple[str, str], float]:
    """Return the scaled scores of seeds with a unique name by task and name."""
    rows = [((task, seed.seed), s) for task, seed, _, s in result.by_seed() if seed.has_own_seed]
    keys = [key for key, _ in rows]
    return {key: value for key, value in rows if keys.count(key) == 1}


def _effects(groups: Sequence[GroupResult], sign: int) -> list[EffectResult]:
    """Return one row for each value of each setting that differs; none if seeds are left out."""
    if not all(each.complete for each in groups):
        return []
    flat = [(seed, task, s) for each in groups for task, seed, _, s in each.by_seed()]
    seeds = [seed for seed, _, _ in flat]
    redundant = {key for keys in change_together(seeds) for key in keys[1:]}
    found = {key: values for key, values in differing(seeds).items() if key not in redundant}
    rows: list[EffectResult] = []
    for key, values in list(found.items())[:_MOST_KEYS]:
        rows += _effect(key, values[:_MOST_VALUES], flat, sign)
    adjusted = iter(statistics.holm([row.p for row in rows if row.p is not None]))
    return [row if row.p is None else replace(row, p=next(adjusted)) for row in rows]


def _effect(
    key: str, values: Sequence[str], flat: Sequence[tuple[SeedRun, str, float]], sign: int
) -> list[EffectResult]:
    parts: dict[str, dict[str, list[float]]] = {value: {} for value in values}
    for seed, task, scaled in sorted(flat, key=lambda each: each[1]):
        if (own := value_of(seed, key)) in parts:
            parts[own].setdefault(task, []).append(scaled)
    estimates = {value: statistics.estimate(list(part.values())) for value, part in parts.items()}
    best = max(values, key=lambda value: estimates[value].value)
    rows = []
    for value, part in parts.items():
        tasks = [task for task in parts[best] if task in part]
        difference, p = None, None
        if value != best and tasks:
            other = statistics.contrast(*([side[t] for t in tasks] for side in (part, parts[best])))
            difference, p = _signed(other.difference, sign), other.p
        count = sum(map(len, part.values()))
        iqm = _signed(estimates[value], sign)
        rows.append(EffectResult(key, value, count, iqm, difference, p))
    return rows
