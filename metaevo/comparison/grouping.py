"""Groups of seeds with the same settings, or with the same values of chosen settings."""

from collections.abc import Sequence

from metaevo.comparison.curves import RunCurve
from metaevo.comparison.seed_run import SEED_KEYS, SeedRun
from metaevo.config import ConfigError
from metaevo.config.hints import of_value
from metaevo.config.plain import short_names

ABSENT = "(not set)"
_LONGEST = 60
"""Characters of a label."""


def group(curves: Sequence[RunCurve], by: Sequence[str] | None) -> dict[str, list[RunCurve]]:
    """Return the groups by label: seeds with equal values of the keys, or of all settings.

    Raises:
        ConfigError: no seed has such a key; the message suggests similar ones.
    """
    seeds = [curve.seed for curve in curves]
    keys = differing(seeds) if by is None else [known_key(key, seeds) for key in by]
    if not keys:
        name = "all" if len({seed.run for seed in seeds}) > 1 else seeds[0].run
        return {_short(name): list(curves)}
    groups: dict[tuple[str, ...], list[RunCurve]] = {}
    for curve in curves:
        groups.setdefault(tuple(_value(curve.seed, key) for key in keys), []).append(curve)
    order = sorted(groups, key=lambda values: [_rank(value) for value in values])
    rows = [dict(zip(keys, values, strict=True)) for values in order]
    labels = [_label(row, keys) for row in rows]
    if by is None and max(map(len, labels)) > _LONGEST:
        # Runs of different learners differ in dozens of settings that change together.
        shown = independent(rows)
        labels = [_label(row, shown) for row in rows]
    short = [_short(label) for label in labels]
    unique = [
        label if short.index(label) == at else f"{label} ({short[:at].count(label) + 1})"
        for at, label in enumerate(short)
    ]
    return dict(zip(unique, (groups[values] for values in order), strict=True))


def differing(seeds: Sequence[SeedRun]) -> list[str]:
    """Return the settings that differ between seeds."""
    keys = sorted({key for seed in seeds for key in seed.settings})
    return [key for key in keys if len({seed.settings.get(key) for seed in seeds}) > 1]


def independent(rows: Sequence[dict[str, str]]) -> list[str]:
    """Return the settings of groups, one of those that always change together.

    It is the most readable one: present in all groups, with a short path.
    """
    partitions: dict[tuple[int, ...], str] = {}
    for key in sorted(
        rows[0], key=lambda key: (any(row[key] == ABSENT for row in rows), key.count("."))
    ):
        values = [row[key] for row in rows]
        partitions.setdefault(tuple(values.index(value) for value in values), key)
    return [key for key in rows[0] if key in partitions.values()]


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
    shown = differing(seeds) or [k for k in known if k not in SEED_KEYS]
    raise ConfigError(
        f"--group-by {key}: no run has such a key{hint}; "
        f"the runs differ in: {', '.join(shown[:12])}"
    )


def _value(seed: SeedRun, key: str) -> str:
    if key == "run":
        return seed.run
    return seed.settings.get(key, str(seed.config.get(key, ABSENT)))


def _rank(value: str) -> tuple[bool, float, str]:
    """Sort numbers by size, before text."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value


def _label(row: dict[str, str], shown: Sequence[str]) -> str:
    return ", ".join(f"{name}={row[key]}" for key, name in short_names(shown).items())


def _short(label: str) -> str:
    """Cut the middle of a long label, because both ends may be informative."""
    half = _LONGEST // 2 - 2
    return label if len(label) <= _LONGEST else f"{label[:half]}...{label[-half:]}"
