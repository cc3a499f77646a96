"""The settings of a sweep: those of a training run or of an evolution, and what to try."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Gt

from metaevo.agents.fitness import FitnessConfig
from metaevo.runs.settings import LATER, RecordConfig
from metaevo.search.config import PbtConfig, SweepConfig
from metaevo.search.space import KINDS
from metaevo.studies.settings import experiment_class, settings_class
from metaevo.training.settings import training_class


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """Randomness, tracking and how the work is split."""

    chunk_size: Annotated[int, Gt(0)] | None = None
    """agents trained at once on a device; by default chosen by metaevo.devices"""
    num_devices: Annotated[int, Gt(0)] | None = None
    """devices to use; by default all"""


SPACE: tuple[Any, Any, str] = (
    dict[str, Any],
    dict,
    "what to try: a setting's dotted name, and uniform, log_uniform, integer, log_integer, "
    "choice or fixed",
)
"""Type, default and documentation of the section `space`."""


def sweep_class(raw: dict[str, Any]) -> type:
    """Return the dataclass of a sweep's settings.

    They are those of a training run (`metaevo.training.settings`) or, with `evolve:`, of an
    evolution (`metaevo.studies.settings`), without what a sweep decides, and this module's.

    Raises:
        ConfigError: for an unknown learner or component.
    """
    base = experiment_class(raw, None) if "evolve" in raw else training_class(raw)
    kept = [each for each in dataclasses.fields(base) if each.name not in ("seeds", "evaluation")]
    scalars = [each for each in kept if not dataclasses.is_dataclass(each.type)]
    sections: dict[str, Any] = {
        each.name: each.type for each in kept if dataclasses.is_dataclass(each.type)
    }
    sections |= {"fitness": FitnessConfig, "sweep": SweepConfig, "pbt": PbtConfig, "run": RunConfig}
    described = {
        each.name: (
            each.type,
            each.default,
            each.metadata.get("doc", ""),
            each.metadata.get(LATER, False),
        )
        for each in scalars
        if each.name != "learner"
    }
    return settings_class(raw.get("learner", "ppo"), sections, {**described, "space": SPACE})


def dotted_space(space: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a space with the dotted names of its settings, each with its rule.

    A YAML may nest them, and so does the command line (`--space.hyperparams.gamma "{...}"`), which
    comes last and wins.
    """
    found: dict[str, Any] = {}
    for key, rule in space.items():
        nested = isinstance(rule, dict) and rule and not set(rule) & {*KINDS, "step"}
        found |= dotted_space(rule, f"{prefix}{key}.") if nested else {prefix + key: rule}
    return found
