"""Groups of seeds with the same settings, or with the same values of chosen settings."""

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from metaevo.comparison.compare_runs.seed_run import SEED_KEYS, SeedRun, settings_of
from metaevo.config import ConfigError

ABSENT = "(not set)"
VARIANT = "variant"
"""The key that holds the name of the variant for scores of evaluation.json."""
_LONGEST = 60  # characters of a label


@dataclass(frozen=True)
class Group:
    """Seeds that are pooled."""

    label: str
    seeds: list[SeedRun]

    @property
    def tasks(self) -> list[str]:
        """The tasks of its seeds."""
        return sorted({seed.task for seed in self.seeds})

    def on(self, task: str) -> list[SeedRun]:
        """Return the seeds that were trained on a task."""
        return [seed for seed in self.seeds if seed.task == task]


def differing(seeds: Sequence[SeedRun]) -> dict[str, list[str]]:
    """The keys in which the seeds' settings differ, each with its values in their order."""
    settings = [settings_of(seed) for seed in seeds]
    keys = sorted({key for each in settings for key in each})
    found = {key: _in_order({each.get(key, ABSENT) for each in settings}) for key in keys}
    return {key: values for key, values in found.items() if len(values) > 1}


def group(seeds: Sequence[SeedRun], by: Sequence[str] | None = None) -> list[Group]:
    """The seeds in groups, by all settings that differ or by the keys named.

    Raises:
        ConfigError: no seed has such a key; the message names the nearest ones.
    """
    if by is None:
        keys = list(differing(seeds))
        if not keys:
            name = "all" if len({seed.run for seed in seeds}) > 1 else seeds[0].run
            return [Group(_short(name), list(seeds))]
    else:
        keys = [known_key(key, seeds) for key in by]
    groups: dict[tuple[str, ...], list[SeedRun]] = {}
    for seed in seeds:
        groups.setdefault(tuple(value_of(seed, key) for key in keys), []).append(seed)
    order = sorted(groups, key=lambda values: [_rank(value) for value in values])
    shown = list(range(len(keys)))
    labels = _labels(keys, order, shown)
    if by is None and max(map(len, labels)) > _LONGEST:
        shown = _telling(keys, order)
        order.sort(key=lambda values: [_rank(values[index]) for index in shown])
        labels = _labels(keys, order, shown)
    labels = _unique([_short(label) for label in labels])
    return [Group(label, groups[values]) for label, values in zip(labels, order, strict=True)]


def _labels(
    keys: Sequence[str], order: Sequence[tuple[str, ...]], shown: Sequence[int]
) -> list[str]:
    names = _short_names([keys[index] for index in shown])
    return [
        ", ".join(f"{names[keys[index]]}={values[index]}" for index in shown) for values in order
    ]


def _telling(keys: Sequence[str], order: Sequence[tuple[str, ...]]) -> list[int]:
    """Return indices of a few keys that distinguish all groups, enough for a label.

    Runs of different learners or programs differ in dozens of settings that only one has.
    """
    columns = list(zip(*order, strict=True))
    chosen: list[int] = []
    parts = 1
    while parts < len(order):
        # All groups differ in some key, so that every step separates more groups.
        candidates = [
            (
                _told(columns, [*chosen, index]),
                *plainness(keys[index], columns[index]),
                -index,
            )
            for index in range(len(columns))
            if index not in chosen
        ]
        parts, *_, negative = max(candidates)
        chosen.append(-int(negative))
    return sorted(chosen)


def plainness(key: str, values: Sequence[str]) -> tuple[bool, int]:
    """Rank a setting for labels: first those that all seeds have, then those near the root."""
    return ABSENT not in values, -key.count(".")


def _told(columns: Sequence[Sequence[str]], chosen: Sequence[int]) -> int:
    """Return how many groups the chosen keys distinguish."""
    return len(set(zip(*(columns[index] for index in chosen), strict=True)))


def value_of(seed: SeedRun, key: str) -> str:
    """The value of a setting as a label shows it."""
    if key == "run":
        return seed.run
    shared = settings_of(seed)
    return shared[key] if key in shared else str(seed.config.get(key, ABSENT))


def with_variants(seeds: Sequence[SeedRun], only: str | None) -> list[SeedRun]:
    """Return a seed for every variant in evaluation.json, with the variant as a setting."""
    return [
        dataclasses.replace(
            seed, config={**seed.config, VARIANT: name}, scores={name: score}, metrics={}
        )
        for seed in seeds
        for name, score in seed.scores.items()
        if only in (None, name)
    ]


def known_key(key: str, seeds: Sequence[SeedRun]) -> str:
    """The key, spelled out if only its last part was given."""
    known = sorted({each for seed in seeds for each in seed.config} | {"run"})
    if key in known:
        return key
    ending = [each for each in known if each.endswith(f".{key}")]
    if len(ending) == 1:
        return ending[0]
    ends = {each.rpartition(".")[2]: each for each in known}
    close = difflib.get_close_matches(key, known, n=1) or [
        ends[one] for one in difflib.get_close_matches(key, ends, n=1)
    ]
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    if ending:
        hint = f": it may be {' or '.join(ending)}"
    shown = list(differing(seeds)) or [k for k in known if k not in SEED_KEYS]
    raise ConfigError(
        f"--group-by {key}: no run has such a key{hint}; "
        f"the runs differ in: {', '.join(shown[:12])}"
    )


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of every key, or as many parts as distinguish it from the others."""
    names = {}
    for key in keys:
        parts = key.split(".")
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[-count:])
            if sum(f".{other}".endswith(f".{name}") for other in keys) == 1:
                break
        names[key] = name
    return names


def _in_order(values: set[str]) -> list[str]:
    """Numbers by size, before text."""
    return sorted(values, key=_rank)


def _rank(value: str) -> tuple[bool, float, str]:
    try:
        number = float(value)
    except ValueError:
        return True, 0.0, value
    return False, number, value


def _short(label: str) -> str:
    """Cut the middle of a long label, because both ends may distinguish it."""
    half = _LONGEST // 2 - 2
    return label if len(label) <= _LONGEST else f"{label[:half]}...{label[-half:]}"


def _unique(labels: Sequence[str]) -> list[str]:
    """Labels that were cut to the same text get a number."""
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return result
