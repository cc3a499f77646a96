"""Results of a rule over all tasks: normalised and pooled scores, a table and a figure."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from metaevo import statistics
from metaevo.comparison.generality.rules import Rule
from metaevo.comparison.generality.tasks import CORE, FAMILIES, HORIZONS, Benchmark
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.reports import page, plots
from metaevo.reports.numbers import counted, score_text
from metaevo.statistics import FloatArray

RANGE = -0.5, 2.0
"""Range of the normalised scores in a figure."""


def normalised(
    measured: Mapping[str, PlainMapping], references: Mapping[str, PlainMapping]
) -> dict[str, FloatArray]:
    """Return scores on the scale from 0, random play, to 1, tuned PPO, by tasks.

    An agent that diverged counts as the worst of the rule's agents and of random play.

    Args:
        measured: results of `metaevo.comparison.generality.measure.measure` by task.
        references: the scores `random` and `tuned` by task.
    """
    found = {}
    for name, each in measured.items():
        reference = references[name]
        low, high = np.mean(reference["random"]), np.mean(reference["tuned"])
        scores = np.asarray(each["scores"], dtype=np.float64)
        table = statistics.fill_missing({0: scores, 1: np.asarray(reference["random"])})
        found[name] = (table[0] - low) / (high - low)
    return found


def result(
    benchmark: Benchmark,
    rule: Rule,
    rates: Sequence[float],
    measured: Mapping[str, PlainMapping],
    references: Mapping[str, PlainMapping],
    unable: Sequence[str] = (),
) -> PlainDict:
    """Return the content of result.json.

    On the tasks `unable` the rule cannot be trained. Other arguments as for `normalised`.
    """
    scores = normalised(measured, references)
    seen = [name for name in scores if benchmark.tasks[name].env in rule.seen]
    frames = sum(benchmark.frames[benchmark.tasks[name].horizon] for name in scores)
    return {
        "version": benchmark.version,
        "rule": rule.text if rule.text.startswith("zoo:") else rule.name,
        "slot": rule.slot,
        "key": rule.key,
        **({} if rule.weights is None else {"weights": rule.weights.source()}),
        "learning_rates": list(rates),
        "seeds": benchmark.seeds,
        "tuning_frames": frames * len(rates) * benchmark.tuning_seeds,
        "complete": len(scores) + len(unable) == len(benchmark.tasks),
        "unable": list(unable),
        "seen": seen,
        **pooled(benchmark, scores, seen),
        "tasks": _by_task(measured, scores),
    }


def pooled(
    benchmark: Benchmark, scores: Mapping[str, FloatArray], seen: Sequence[str]
) -> PlainDict:
    """Return the score of a rule, its parts and their intervals, from `normalised` scores.

    `score`, also of `families` and `horizons`, pools the tasks of version 1 that the rule's
    evolution did not see. `added` is the score of the unseen tasks of later versions. Seen tasks
    count in `all` only. Parts without tasks are None.
    """
    first = [name for name in scores if benchmark.tasks[name].since == CORE]
    core = [name for name in first if name not in seen]
    later = [name for name in scores if name not in (*first, *seen)]

    def of(names: Iterable[str]) -> PlainDict | None:
        strata = [scores[name] for name in names]
        if not strata:
            return None
        value, interval = statistics.estimate(strata)
        return {"iqm": value, "interval": interval, "tasks": len(strata)}

    return {
        "score": of(core),
        "added": of(later),
        "all": of(first),
        "families": {
            family: of(name for name in core if benchmark.tasks[name].family == family)
            for family in FAMILIES
        },
        "horizons": {
            horizon: of(name for name in core if benchmark.tasks[name].horizon == horizon)
            for horizon in HORIZONS
        },
        "better_than_ppo": float(np.mean([np.mean(scores[name] > 1) for name in first or scores])),
    }


def _by_task(
    measured: Mapping[str, PlainMapping], scores: Mapping[str, FloatArray]
) -> dict[str, PlainDict]:
    """Return the part of a row for every task."""
    found = {}
    for name, each in scores.items():
        value, interval = statistics.estimate([each])
        found[name] = {
            "learning_rate": measured[name]["learning_rate"],
            "scores": measured[name]["scores"],
            "normalised": each.tolist(),
            "iqm": value,
            "interval": interval,
        }
    return found


def table(found: PlainMapping, benchmark: Benchmark) -> page.Table:
    """Return the results on every task; a task that the evolution of the rule saw is marked."""
    cells = []
    for name, each in found["tasks"].items():
        spec = benchmark.tasks[name]
        seen = " (seen)" if name in found["seen"] else ""
        rate = f"{each['learning_rate']:g}"
        cells.append([name + seen, spec.family, spec.horizon, rate, interval_of(each)])
    parts = [
        f"{name} {interval_of(each)}"
        for kind in ("families", "horizons")
        for name, each in found[kind].items()
        if each
    ]
    if found["added"]:
        parts.append(f"added in later versions {interval_of(found['added'])}")
    beaten = f"Agents that beat the mean of tuned PPO: {found['better_than_ppo']:.0%}"
    notes = ["; ".join(parts), beaten] if parts else [beaten]
    columns = ["task", "family", "horizon", "learning rate", "IQM [95%]"]
    return page.Table("", columns, cells, note=f"{'. '.join(notes)}.")


def headline(found: PlainMapping) -> str:
    """Return a sentence with the headline score, or the score of later tasks if there is none."""
    about = f"{found['rule']}, generality benchmark version {found['version']}"
    score = found["score"] or found["added"]
    if score is None:
        return f"{about}: no score, because its evolution saw every task that was measured"
    tasks = counted(score["tasks"], "task")
    if found["score"] is None:
        tasks += " of later versions"
    if found["seen"]:
        tasks += " that its evolution did not see"
    if not found["complete"]:
        tasks += " (not the whole list)"
    return (
        f"{about}: {interval_of(score)} on {tasks}, {found['seeds']} seeds each (0 random, 1 PPO)"
    )


def interval_of(part: PlainMapping) -> str:
    """Return a score of a result with its interval."""
    return score_text(part, decimals=2)


def draw(found: PlainMapping, path: Path) -> Path:
    """Draw the normalised score of every task, and the performance profile over all tasks."""
    tasks = found["tasks"]
    figure = plots.new_figure(4.4 + 0.3 * len(tasks), plots.NARROW)
    above, below = figure.subplots(2, height_ratios=[0.3 * len(tasks) + 0.8, 2.6])
    label = f"score of {found['rule']}: 0 random play, 1 tuned PPO"
    plots.style_axes(above, label, "", grid="x")
    plots.style_axes(below, label, "share of agents above it")
    for at, each in enumerate(tasks.values()):
        scores = np.clip(each["normalised"], *RANGE)
        above.plot(scores, np.full(len(scores), at), "|", color=plots.GREY, alpha=0.8)
        above.plot(np.clip(each["interval"], *RANGE), [at, at], color=plots.LEARNED, linewidth=3)
        above.plot(np.clip(each["iqm"], *RANGE), at, "o", color=plots.LEARNED)
    above.set_yticks(range(len(tasks)), list(tasks))
    above.set_ylim(len(tasks) - 0.5, -0.5)
    levels = np.linspace(*RANGE, 126)
    strata = [np.asarray(each["normalised"]) for each in tasks.values()]
    share, low, high = statistics.performance_profile(strata, levels)
    below.fill_between(levels, low, high, color=plots.LEARNED, alpha=0.15, linewidth=0)
    below.plot(levels, share, color=plots.LEARNED, linewidth=2)
    below.set_ylim(-0.02, 1.02)
    for axes in (above, below):
        axes.set_xlim(*RANGE)
        for value in (0.0, 1.0):
            axes.axvline(value, color=plots.INK, linewidth=1, linestyle=":")
    return plots.save_figure(figure, path)
