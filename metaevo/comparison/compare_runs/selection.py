"""The metric, the seeds that have it, the axis, and the common length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metaevo.comparison.compare_runs import curves
from metaevo.comparison.compare_runs.directions import EVALUATION, direction
from metaevo.comparison.compare_runs.seed_run import AXES, SeedRun, Source
from metaevo.config import ConfigError


@dataclass(frozen=True)
class Selection:
    """The seeds that can be compared, with metric and axis."""

    metric: str
    variant: str | None
    """of evaluation.json, if one was chosen"""
    axis: str
    seeds: list[SeedRun]
    ends: dict[str, float]
    """how far along the axis all seeds of a task have come: they are judged there"""
    full_length: bool

    @property
    def lower_is_better(self) -> bool:
        """Whether low values of the metric are known to be better."""
        return direction(self.metric) == "lower"


def select(
    sources: Sequence[Source],
    metric: str | None,
    align: str | None,
    full_length: bool,
    notes: list[str],
) -> Selection:
    """Choose metric, seeds and axis; add remarks to the notes.

    Raises:
        ConfigError: a run lacks the metric or the axis, or no run has anything yet.
    """
    notes += [f"{source.name}: {note}" for source in sources for note in source.notes]
    notes += [f"{source.name}: {source.status}" for source in sources if not source.complete]
    chosen, variant = metric or _default(sources, notes), None
    if chosen.split(":", 1)[0] == EVALUATION:
        chosen, _, rest = chosen.partition(":")
        variant = rest or None
    seeds: list[SeedRun] = []
    for source in sources:
        mine = [seed for seed in source.seeds if _has(seed, chosen, variant)]
        if not mine and any(seed.metrics or seed.scores for seed in source.seeds):
            raise ConfigError(
                f"{source.name}: has no metric {metric or chosen!r}; it has: {_names(source)}"
            )
        if not mine and not source.repeats:
            notes.append(f"{source.name}: left out, it has recorded nothing to compare yet")
        seeds += mine
    if not seeds:
        raise ConfigError("no run has recorded anything to compare yet")
    if chosen == EVALUATION:
        return Selection(chosen, variant, "steps", seeds, {}, full_length)
    axis = align or curves.default_axis(seeds)
    for seed in seeds:
        if axis not in seed.axes:
            known = ", ".join(each for each in AXES if each in seed.axes)
            raise ConfigError(f"{seed.run}: cannot be aligned by {axis}; it has: {known}")
    if chosen not in ("mean_return",) and any(seed.is_mean for seed in seeds):
        notes.append(f"{chosen} is recorded as a mean over a run's seeds: a run counts as one seed")
    ends = _ends(seeds, axis, full_length, notes)
    return Selection(chosen, variant, axis, seeds, ends, full_length)


def _has(seed: SeedRun, metric: str, variant: str | None) -> bool:
    if metric == EVALUATION:
        return bool(seed.scores) if variant is None else variant in seed.scores
    return metric in seed.metrics


def _default(sources: Sequence[Source], notes: list[str]) -> str:
    """Return the default metric, on which the runs have to agree.

    Evolutions are judged by held-out scores if all have them.
    """
    held_out = {
        source.name: {each.default for each in source.seeds if _is_held_out(each)}
        for source in sources
        if source.seeds
    }
    names = set().union(*held_out.values())
    if len(names) == 1 and all(held_out.values()):
        notes.append(
            "judged by the held-out scores of what each evolution found, a seed for each agent "
            "that learned with it: they say nothing about another evolution with the same settings "
            "(--metric fitness_of_mean shows the curves)"
        )
        return str(names.pop())
    if len(names) > 1:
        notes.append(
            "the runs are not judged by their held-out scores, which are of different variants: "
            f"{', '.join(sorted(map(str, names)))}"
        )
    elif names:
        without = ", ".join(name for name, found in held_out.items() if not found)
        notes.append(f"the runs are not judged by held-out scores, which {without} lacks")
    defaults: dict[str, str] = {}
    for source in sources:
        found = next(
            (each.default for each in source.seeds if each.default and not _is_held_out(each)), None
        )
        if found:
            defaults.setdefault(found, source.name)
        elif any(seed.metrics for seed in source.seeds):
            raise ConfigError(f"{source.name}: name a metric with --metric: {_names(source)}")
    if len(defaults) > 1:
        shown = ", ".join(f"{name} ({run})" for name, run in defaults.items())
        raise ConfigError(f"the runs are judged by different metrics: {shown}; choose by --metric")
    if not defaults:
        if any(seed.scores for source in sources for seed in source.seeds):
            return EVALUATION
        raise ConfigError("no run has recorded anything to compare yet")
    return next(iter(defaults))


def _is_held_out(seed: SeedRun) -> bool:
    return (seed.default or "").startswith(f"{EVALUATION}:")


def _names(source: Source) -> str:
    names = sorted({name for seed in source.seeds for name in seed.metrics})
    variants = list(dict.fromkeys(name for seed in source.seeds for name in seed.scores))
    names += [EVALUATION] * bool(variants) + [f"{EVALUATION}:{name}" for name in variants]
    return ", ".join(names) or "none yet"


def _ends(
    seeds: Sequence[SeedRun], axis: str, full_length: bool, notes: list[str]
) -> dict[str, float]:
    tasks: dict[str, list[SeedRun]] = {}
    for seed in seeds:
        tasks.setdefault(seed.task, []).append(seed)
    ends = {task: curves.common_reach(each, axis) for task, each in tasks.items()}
    for task, each in tasks.items():
        reaches = np.array([curves.reach(seed, axis) for seed in each])
        # A wall clock never stops at the same time twice.
        if reaches.max() <= ends[task] * (1.001 if axis != "seconds" else 1.2):
            continue
        on = f" on {task}" if task else ""
        if full_length:
            notes.append(f"runs{on} differ in length; each is judged at its own end")
        else:
            notes.append(
                f"runs{on} differ in length: all are judged at {ends[task]:,.6g} {AXES[axis]}, "
                f"which all have reached (the longest has {reaches.max():,.6g}); "
                "--full-length judges each at its own end"
            )
    return ends
