"""Groups of seeds with the same settings, or with the same values of chosen settings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from metaevo.comparison.seed_run import SEED_KEYS, SeedRun
from metaevo.config import ConfigError
from metaevo.config.hints import of_value
from metaevo.config.plain import short_names

ABSENT = "(not set)"
_LONGEST = 60
"""Characters of a label."""


@dataclass(frozen=True)
class Group:
    """Seeds that are pooled."""

    label: str
    seeds: list[SeedRun]

    def on(self, task: str) -> list[SeedRun]:
        """Return the seeds of a task."""
        return [seed for seed in self.seeds if seed.task == task]


def differing(seeds: Sequence[SeedRun]) -> dict[str, list[str]]:
    """Return the settings that differ between seeds, each with its sorted values."""
    keys = sorted({key for seed in seeds for key in seed.settings})
    found = {
        key: sorted({seed.settings.get(key, ABSENT) for seed in seeds}, key=_rank) for key in keys
    }
    return {key: values for key, values in found.items() if len(values) > 1}


def change_together(seeds: Sequence[SeedRun]) -> list[list[str]]:
    """Return sets of settings that always change together, so their effects are confounded.

    The most readable setting of each set comes first: present in all seeds, with a short path.
    """
    partitions: dict[tuple[int, ...], list[str]] = {}
    found = differing(seeds)
    for key in sorted(found, key=lambda key: (ABSENT in found[key], key.count("."))):
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
    order = sorted(groups, key=lambda values: [_rank(value) for value in values])
    labels = _labels(keys, order, keys)
    if by is None and max(map(len, labels)) > _LONGEST:
        # Runs of different learners differ in dozens of settings that change together.
        redundant = {key for together in change_together(seeds) for key in together[1:]}
        labels = _labels(keys, order, [key for key in keys if key not in redundant])
    labels = _unique([_short(label) for label in labels])
    return [Group(label, groups[values]) for label, values in zip(labels, order, strict=True)]


def _labels(
    keys: Sequence[str], rows: Sequence[tuple[str, ...]], shown: Sequence[str]
) -> list[str]:
    names = short_names(shown)
    return [
        ", ".join(
            f"{names[key]}={value}" for key, value in zip(keys, row, strict=True) if key in names
        )
        for row in rows
    ]


def value_of(seed: SeedRun, key: str) -> str:
    """Return the value of a setting as text."""
    if key == "run":
        return seed.run
    return seed.settings.get(key, str(seed.config.get(key, ABSENT)))


def known_key(key: str, seeds: Sequence[SeedRun]) -> str:
    """Return the full key of a setting, which may be given by its last part.

    Raises:
        ConfigError: no seed has such a key, or several keys have this last part.
    """
    known = sorted({each for seed in seeds for each in seed.config} | {"run"})
    ending = [each for each in known if each.endswith(f".{key}")]
    if key in known:
        return key
    if len(ending) == 1:
        return ending[0]
    hint = of_value(key, [*known, *(each.rpartition(".")[2] for each in known)])
    if ending:
        hint = f": it may be {' or '.join(ending)}"
    shown = list(differing(seeds)) or [k for k in known if k not in SEED_KEYS]
    raise ConfigError(
        f"--group-by {key}: no run has such a key{hint}; "
        f"the runs differ in: {', '.join(shown[:12])}"
    )


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
    seen: Counter[str] = Counter()
    result = []
    for label in labels:
        seen[label] += 1
        result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return result
