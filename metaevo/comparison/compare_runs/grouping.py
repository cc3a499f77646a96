"""Groups of seeds with the same settings, or with the same values of chosen settings."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from metaevo.comparison.compare_runs.seed_run import SEED_KEYS, SeedRun, settings_of
from metaevo.config import ConfigError

ABSENT = "(not set)"
_LONGEST = 60
"""Characters of a label."""


@dataclass(frozen=True)
class Group:
    """Seeds that are pooled."""

    label: str
    seeds: list[SeedRun]

    @property
    def tasks(self) -> list[str]:
        """Tasks of the seeds."""
        return sorted({seed.task for seed in self.seeds})

    def on(self, task: str) -> list[SeedRun]:
        """Return the seeds of a task."""
        return [seed for seed in self.seeds if seed.task == task]


def differing(seeds: Sequence[SeedRun]) -> dict[str, list[str]]:
    """Return the settings that differ between seeds, each with its sorted values."""
    settings = [settings_of(seed) for seed in seeds]
    keys = sorted({key for each in settings for key in each})
    found = {key: sorted({each.get(key, ABSENT) for each in settings}, key=_rank) for key in keys}
    return {key: values for key, values in found.items() if len(values) > 1}


def change_together(seeds: Sequence[SeedRun]) -> list[list[str]]:
    """Return sets of settings that always change together, so their effects are confounded.

    The most readable setting of each set comes first.
    """
    partitions: dict[tuple[int, ...], list[str]] = {}
    found = differing(seeds)
    for key in sorted(found, key=lambda key: _readability(key, found[key])):
        numbers: dict[str, int] = {}
        pattern = tuple(numbers.setdefault(value_of(s, key), len(numbers)) for s in seeds)
        partitions.setdefault(pattern, []).append(key)
    return [keys for keys in partitions.values() if len(keys) > 1]


def group(seeds: Sequence[SeedRun], by: Sequence[str] | None = None) -> list[Group]:
    """Group seeds by the given keys, or by all settings that differ.

    Raises:
        ConfigError: no seed has such a key; the message suggests similar ones.
    """
    keys = list(differing(seeds)) if by is None else [known_key(key, seeds) for key in by]
    if not keys:
        name = "all" if len({seed.run for seed in seeds}) > 1 else seeds[0].run
        return [Group(_short(name), list(seeds))]
    groups: dict[tuple[str, ...], list[SeedRun]] = {}
    for seed in seeds:
        groups.setdefault(tuple(value_of(seed, key) for key in keys), []).append(seed)
    shown = keys
    if by is None and max(map(len, _labels(keys, list(groups), keys))) > _LONGEST:
        # Runs of different learners differ in dozens of settings that change together.
        redundant = {key for together in change_together(seeds) for key in together[1:]}
        shown = [key for key in keys if key not in redundant]
    order = sorted(groups, key=lambda values: [_rank(value) for value in values])
    labels = _unique([_short(label) for label in _labels(keys, order, shown)])
    return [Group(label, groups[values]) for label, values in zip(labels, order, strict=True)]


def _labels(
    keys: Sequence[str], rows: Sequence[tuple[str, ...]], shown: Sequence[str]
) -> list[str]:
    names = _short_names(shown)
    return [
        ", ".join(
            f"{names[key]}={value}" for key, value in zip(keys, row, strict=True) if key in names
        )
        for row in rows
    ]


def _readability(key: str, values: Sequence[str]) -> tuple[bool, int]:
    """Return a sort key for labels: settings present in all seeds first, then shorter paths."""
    return ABSENT in values, key.count(".")


def value_of(seed: SeedRun, key: str) -> str:
    """Return the value of a setting as text."""
    if key == "run":
        return seed.run
    return settings_of(seed).get(key, str(seed.config.get(key, ABSENT)))


def known_key(key: str, seeds: Sequence[SeedRun]) -> str:
    """Return the full key of a setting, which may be given by its last part."""
    known = sorted({each for seed in seeds for each in seed.config} | {"run"})
    if key in known:
        return key
    ending = [each for each in known if each.endswith(f".{key}")]
    if len(ending) == 1:
        return ending[0]
    ends = {each.rpartition(".")[2]: each for each in known} | {each: each for each in known}
    close = difflib.get_close_matches(key, ends, n=1)
    hint = f" (did you mean {ends[close[0]]!r}?)" if close else ""
    if ending:
        hint = f": it may be {' or '.join(ending)}"
    shown = list(differing(seeds)) or [k for k in known if k not in SEED_KEYS]
    raise ConfigError(
        f"--group-by {key}: no run has such a key{hint}; "
        f"the runs differ in: {', '.join(shown[:12])}"
    )


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the last part of every key, or as many parts as are unique."""
    names = {}
    for key in keys:
        parts = key.split(".")
        endings = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        unique = (e for e in endings if sum(f".{other}".endswith(f".{e}") for other in keys) == 1)
        names[key] = next(unique, key)
    return names


def _rank(value: str) -> tuple[bool, float, str]:
    """Sort numbers by size, before text."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value


def _short(label: str) -> str:
    """Cut the middle of a long label, because both ends may be informative."""
    half = _LONGEST // 2 - 2
    return label if len(label) <= _LONGEST else f"{label[:half]}...{label[-half:]}"


def _unique(labels: Sequence[str]) -> list[str]:
    """Number equal labels."""
    return [
        label if label not in labels[:place] else f"{label} ({labels[:place].count(label) + 1})"
        for place, label in enumerate(labels)
    ]
