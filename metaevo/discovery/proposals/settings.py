"""Settings of a judge, which has the settings of `metaevo evolve --evolve program`."""

from pathlib import Path

from metaevo.components import program
from metaevo.config import ConfigError, from_dict, load_yaml, merge, presets, show
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.studies.settings import EvolveSettings, experiment_class

PROGRAM = "program"
DEFAULTS: PlainDict = {"evolution": {"seeds_per_candidate": 4}}


def raw_settings(slot: str | None, tasks: str | Path | PlainMapping) -> PlainDict:
    """Return plain settings with a program in the slot.

    Args:
        slot: the slot; by default the slot in the settings.
        tasks: a file, the name of a preset, or plain settings. If they evolve something else, the
            section component is left out.

    Raises:
        ConfigError: for an unknown slot, or a slot that contradicts the settings.
    """
    given = load_yaml(presets.find(Path(tasks))) if isinstance(tasks, str | Path) else dict(tasks)
    is_program = given.pop("evolve", PROGRAM) == PROGRAM
    component = given.pop("component", None) if is_program else None
    component = component if isinstance(component, dict) else {}
    slot = slot or component.get("slot")
    if slot not in program.SLOT:
        raise ConfigError(f"slot = {show(slot)}: must be one of {', '.join(program.SLOT)}")
    if (own := component.get("slot", slot)) != slot:
        raise ConfigError(f"slot = {slot!r}: the settings have component.slot = {show(own)}")
    given = merge(DEFAULTS, given)
    return {**given, "evolve": PROGRAM, "component": {**component, "slot": slot}}


def make_settings(raw: PlainDict) -> EvolveSettings:
    """Return checked settings.

    Raises:
        ConfigError: naming the key that is wrong.
    """
    settings = from_dict(experiment_class(raw, None), raw)
    check(settings)
    return settings


def check(settings: EvolveSettings) -> None:
    """Raise `ConfigError` if a judge cannot use settings of an evolution."""
    if settings.evolve != PROGRAM:
        raise ConfigError(f"evolve = {show(settings.evolve)}: must be {PROGRAM!r}")
    if not isinstance(settings.task.env, str):
        raise ConfigError("task.env: must be one environment; name several under tasks")
    if settings.component.count > 1:
        raise ConfigError("component.hyperparams: must be one, as a proposal is one expression")
