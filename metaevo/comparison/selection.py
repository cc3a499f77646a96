"""Metric, axis, seeds and common length of a comparison of runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from metaevo.comparison import curves
from metaevo.comparison.seed_run import AXES, EVALUATION, SeedRun, Source, direction
from metaevo.config import ConfigError
from purerl.metrics import Direction

VARIANT = "variant"
"""The config key that holds the variant of held-out scores."""
_HELD_OUT = f"{EVALUATION}:"


@dataclass(frozen=True)
class Selection:
    """The seeds to compare, with metric and axis."""

    metric: str
    """`evaluation` or `evaluation:VARIANT` for held-out scores"""
    axis: str
    seeds: list[SeedRun]
    ends: dict[str, float]
    """by task, the position on the axis at which all seeds are scored"""
    full_length: bool

    @property
    def is_evaluation(self) -> bool:
        """Whether held-out scores are compared, which have no curves."""
        return _is_evaluation(self.metric)

    @property
    def direction(self) -> Direction | None:
        """Whether higher or lower values are better; None if unknown."""
        return direction(self.metric)

    @property
    def lower_is_better(self) -> bool:
        """Whether low values of the metric are known to be better."""
        return self.direction == "lower"

    def curve(self, seed: SeedRun) -> curves.Curve:
        """Return the metric of a seed along the axis."""
        return curves.curve(seed, self.metric, self.axis)

    def score(self, seed: SeedRun, how: curves.Score) -> float:
        """Return the score of a seed; NaN if it has none."""
        if self.is_evaluation:
            (score,) = seed.metrics.values()
            return float(score[0])
        end = curves.reach(seed, self.axis) if self.full_length else self.ends[seed.task]
        return curves.score(*self.curve(seed), end, how, lower_is_better=self.lower_is_better)


def select(
    sources: Sequence[Source],
    metric: str | None,
    align: str | None,
    full_length: bool,
    notes: list[str],
) -> Selection:
    """Choose metric, seeds and axis, and append to the notes.

    Raises:
        ConfigError: a run lacks the metric or the axis, or no run has any records yet.
    """
    notes += [f"{source.name}: {note}" for source in sources for note in source.notes]
    notes += [f"{source.name}: is not finished" for source in sources if not source.complete]
    chosen = metric or _default(sources, notes)
    seeds: list[SeedRun] = []
    for source in sources:
        if _is_evaluation(chosen):
            own = [each for seed in source.seeds for each in _variants(seed, chosen)]
        else:
            own = [seed for seed in source.seeds if chosen in seed.metrics]
        if not own and any(seed.metrics for seed in source.seeds):
            raise ConfigError(f"{source.name}: has no metric {chosen!r}; it has: {_names(source)}")
        if not own:
            notes.append(f"{source.name}: left out, because it has no records yet")
        seeds += own
    if not seeds:
        raise ConfigError("no run has recorded anything to compare yet")
    if _is_evaluation(chosen):
        return Selection(chosen, "steps", seeds, {}, full_length)
    axis = align or curves.default_axis(seeds)
    for seed in seeds:
        if axis not in seed.axes:
            known = ", ".join(each for each in AXES if each in seed.axes)
            raise ConfigError(f"{seed.run}: cannot be aligned by {axis}; it has: {known}")
    if chosen != "mean_return" and any(seed.is_mean for seed in seeds):
        notes.append(f"{chosen} is recorded as a mean over a run's seeds: a run counts as one seed")
    return Selection(chosen, axis, seeds, _ends(seeds, axis, full_length, notes), full_length)


def _is_evaluation(metric: str | None) -> bool:
    return metric is not None and metric.partition(":")[0] == EVALUATION


def _variants(seed: SeedRun, metric: str) -> list[SeedRun]:
    """Return a seed for each held-out score, with the variant as a setting."""
    return [
        replace(
            seed,
            config={**seed.config, VARIANT: name.removeprefix(_HELD_OUT)},
            axes={},
            metrics={name: score},
        )
        for name, score in seed.metrics.items()
        if _is_evaluation(name) and metric in (EVALUATION, name)
    ]


def _default(sources: Sequence[Source], notes: list[str]) -> str:
    """Return the common default metric; held-out scores if all evolutions have the same ones."""
    defaults: dict[str, str] = {}
    held_out: list[set[str | None]] = []
    for source in sources:
        if not source.seeds:
            continue
        names = [seed.default for seed in source.seeds if seed.default]
        held_out.append({name for name in names if _is_evaluation(name)})
        curved = next((name for name in names if not _is_evaluation(name)), None)
        if curved:
            defaults.setdefault(curved, source.name)
    variants = set().union(*held_out)
    if len(variants) == 1 and all(held_out):
        notes.append(
            "evolutions are compared by the held-out scores of their results, with one seed for "
            "each agent: the intervals do not cover the variation between evolutions "
            "(--metric fitness_of_mean shows the curves)"
        )
        return str(variants.pop())
    if variants:
        notes.append("held-out scores are not used, because not all runs have those of one variant")
    if len(defaults) > 1:
        shown = ", ".join(f"{name} ({run})" for name, run in defaults.items())
        raise ConfigError(f"the runs have different default metrics: {shown}; choose with --metric")
    return next(iter(defaults), EVALUATION)


def _names(source: Source) -> str:
    names = {name for seed in source.seeds for name in seed.metrics}
    if any(map(_is_evaluation, names)):
        names.add(EVALUATION)
    return ", ".join(sorted(names))


def _ends(
    seeds: Sequence[SeedRun], axis: str, full_length: bool, notes: list[str]
) -> dict[str, float]:
    reaches: dict[str, list[float]] = {}
    for seed in seeds:
        reaches.setdefault(seed.task, []).append(curves.reach(seed, axis))
    for task, each in reaches.items():
        # Wall clocks of equal runs differ a little.
        if max(each) <= min(each) * (1.001 if axis != "seconds" else 1.2):
            continue
        on = f" on {task}" if task else ""
        how = "each is scored at its own end" if full_length else (
            f"all are scored at {min(each):,.6g} {AXES[axis]}, which all have reached (the longest "
            f"run has {max(each):,.6g}); --full-length scores each at its own end"
        )  # fmt: skip
        notes.append(f"runs{on} differ in length: {how}")
    return {task: min(each) for task, each in reaches.items()}
