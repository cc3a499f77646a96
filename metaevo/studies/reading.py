"""Settings of a command, or of any dataclass, for programs that use metaevo as a library."""

from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, find_preset, from_dict, load_yaml, merge, show
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.studies.settings import settings_class
from metaevo.training.settings import training_class
from metaevo.tuning.config import SweepSettings


def sweep_class(raw: PlainDict) -> type[SweepSettings]:
    """Return the dataclass of a sweep's settings.

    It has the settings of a training run or, with `evolve:` or `problem:`, of an evolution, and
    the sections of the sweep itself.

    Raises:
        ConfigError: for an unknown learner, part or problem.
    """
    is_evolution = "evolve" in raw or "problem" in raw
    trial = settings_class(dict(raw)) if is_evolution else training_class(raw)
    made: type[SweepSettings] = make_dataclass(
        trial.__name__, [], bases=(trial, SweepSettings), frozen=True, kw_only=True
    )
    return made


CLASSES: dict[str, Callable[[PlainDict], type]] = {
    "train": training_class,
    "evolve": settings_class,
    "sweep": sweep_class,
}


def read_settings(
    of: Any, given: str | Path | PlainMapping, changes: PlainMapping | None = None
) -> Any:
    """Return the validated settings of a command, or a dataclass with validated fields.

    Settings of `train` have the method `population`, those of `evolve` the method `build`, which
    returns the problem, and `strategy.build()`.

    Examples:
        >>> settings = metaevo.read_settings("train", "train/ppo_cartpole", {"seeds": 4})
        >>> population = settings.population()
        >>> config = metaevo.read_settings(ppo.Config, {"num_envs": 8})

    Args:
        of: train, evolve or sweep; or a dataclass, such as a learner's `Config`.
        given: a YAML file, the name of a preset, or the settings as plain data.
        changes: take the place of settings in `given`.

    Raises:
        ConfigError: if there is no such file, or a setting is invalid.
    """
    raw = dict(given) if isinstance(given, Mapping) else load_yaml(find_preset(given))
    raw = merge(raw, dict(changes or {}))
    if isinstance(of, str) and of not in CLASSES:
        raise ConfigError(f"of = {show(of)}: must be one of {', '.join(CLASSES)}")
    return from_dict(CLASSES[of](raw) if isinstance(of, str) else of, raw)
