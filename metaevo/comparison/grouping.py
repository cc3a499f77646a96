"""Groups of seeds with the same settings, or with the same values of chosen settings."""

from collections.abc import Sequence

from metaevo.comparison.recorded import Curve, RecordedRun
from metaevo.config import ConfigError
from metaevo.config.plain import of_value, short_names

ABSENT = "(not set)"
Values = tuple[str, ...]
"""Values of the settings that form the groups."""


def group(
    curves: Sequence[Curve], by: Sequence[str] | None, notes: list[str]
) -> dict[str, list[Curve]]:
    """Return the groups by label: seeds with equal values of the keys, or of all settings.

    The groups are in the order of their first curves. Of settings that change together only one is
    in the labels, and a note lists the others.

    Raises:
        ConfigError: no run has such a key; the message suggests similar ones.
    """
    runs = list(dict.fromkeys(curve.run for curve in curves))
    keys = _differing(runs) if by is None else [_known_key(key, runs) for key in by]
    groups: dict[Values, list[Curve]] = {}
    for curve in curves:
        values = tuple(_value(curve.run, key) for key in keys)
        groups.setdefault(values, []).append(curve)
    if not keys:
        return {runs[0].name if len(runs) == 1 else "all": list(curves)}
    shown = _sufficient(list(groups), keys) if by is None else list(range(len(keys)))
    if others := [key for at, key in enumerate(keys) if at not in shown]:
        notes.append(f"the groups differ in other settings, too: {', '.join(others)}")
    names = list(zip(short_names(keys[at] for at in shown).values(), shown, strict=True))
    return {
        ", ".join(f"{name}={values[at]}" for name, at in names): own
        for values, own in groups.items()
    }


def _differing(runs: Sequence[RecordedRun]) -> list[str]:
    keys = sorted({key for run in runs for key in run.settings})
    return [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]


def _sufficient(rows: Sequence[Values], keys: Sequence[str]) -> list[int]:
    """Return places of settings that distinguish all groups; common ones with short paths first."""

    def rank(at: int) -> tuple[bool, int]:
        return any(row[at] == ABSENT for row in rows), keys[at].count(".")

    def groups(places: Sequence[int]) -> int:
        return len({tuple(row[at] for at in places) for row in rows})

    chosen: list[int] = []
    for at in sorted(range(len(keys)), key=rank):
        if groups([*chosen, at]) > groups(chosen):
            chosen.append(at)
    return sorted(chosen)


def _known_key(key: str, runs: Sequence[RecordedRun]) -> str:
    """Return the full key of a setting, which may be given by its last part."""
    known = sorted({each for run in runs for each in run.config} | {"run"})
    found = [key] if key in known else [each for each in known if each.endswith(f".{key}")]
    if len(found) != 1:
        hint = of_value(key, [*known, *(each.rpartition(".")[2] for each in known)])
        shown = ", ".join((found or _differing(runs) or known)[:12])
        raise ConfigError(f"--group-by {key}: must be the name of one setting{hint}: {shown}")
    return found[0]


def _value(run: RecordedRun, key: str) -> str:
    if key == "run":
        return run.name
    return run.settings.get(key, str(run.config.get(key, ABSENT)))
