"""An experiment: its settings, and the parts that they describe, built before anything compiles."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt

from metaevo.agents.fitness import FitnessConfig
from metaevo.agents.task import Parts, TaskConfig, learner_entry, make_environments
from metaevo.components import filling, known, parts
from metaevo.components.slots import SLOTS
from metaevo.config import ConfigError
from metaevo.config.numbers import check_numbers
from metaevo.held_out.evaluation import EvaluationConfig
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.outer_loop.strategy import StrategyConfig
from metaevo.runs.settings import LATER, RecordConfig


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """The same, and when an evolution is saved."""

    checkpoint_every: Annotated[int, Gt(0)] = 5
    """generations between two checkpoints"""


def experiment_class(raw: dict[str, Any], component: str | None) -> type:
    """Return the dataclass of an experiment's settings; some sections depend on others' names.

    Args:
        raw: the unvalidated settings, of which `evolve` and `learner` are read.
        component: what is evolved if `evolve` does not say.

    Raises:
        ConfigError: for an unknown component or learner, or a learner without the component's slot.
    """
    learner = raw.get("learner", "ppo")
    entry = learner_entry(learner)
    evolve = raw.get("evolve", component)
    if evolve is None:
        raise ConfigError(f"missing key 'evolve': what to evolve, one of: {', '.join(known())}")
    modules = parts.modules_of(evolve, learner)
    configs = {name: module.Config for name, module in modules.items()}
    if isinstance(evolve, str):
        (config,) = configs.values()
    else:
        config = _section({name: (each, each, "") for name, each in configs.items()})
        evolve = tuple(evolve)
    sections = {
        "task": TaskConfig,
        "train": entry.module.Config,
        "hyperparams": entry.module.Hyperparams,
        "component": config,
        "fitness": FitnessConfig,
        "strategy": StrategyConfig,
        "evolution": EvolutionConfig,
        "evaluation": EvaluationConfig,
        "run": RunConfig,
    }
    scalars: dict[str, Scalar] = {
        "evolve": (str | tuple[str, ...], evolve, "the component to evolve, or a list of several")
    }
    evolved = {module.SLOT for module in modules.values()}
    for slot in filling.slots_of(learner):
        if slot not in evolved:
            reference = SLOTS[slot].names(learner)[0]
            scalars[slot] = (str, reference, filling.describe(slot), True)
    return settings_class(learner, sections, scalars)


Scalar = tuple[Any, Any, str] | tuple[Any, Any, str, bool]
"""Type, default (a class makes a new one) and documentation of a setting, and whether runs of
earlier versions may lack it: they have its default."""


def settings_class(
    learner: str, sections: dict[str, type], scalars: Mapping[str, Scalar] | None = None
) -> type:
    """Return a frozen dataclass with the learner's name and one field per section.

    Args:
        learner: its name.
        sections: their classes.
        scalars: the settings that stand beside the sections.
    """
    described: dict[str, Scalar] = {"learner": (str, learner, ""), **(scalars or {})}
    return _section(described | {key: (cls, cls, "") for key, cls in sections.items()})


def _section(scalars: Mapping[str, Scalar]) -> type:
    fields: list[tuple[str, Any, Any]] = []
    for key, (kind, default, text, *later) in scalars.items():
        how = "default_factory" if isinstance(default, type) else "default"
        metadata = {"doc": text, LATER: bool(later and later[0])}
        fields.append((key, kind, field(**{how: default}, metadata=metadata)))
    checked = {"__post_init__": check_numbers}
    return dataclasses.make_dataclass("Settings", fields, frozen=True, namespace=checked)


def make_parts(settings: Any, run_path: Path | None = None, *, trust_source: bool = False) -> Parts:
    """Build the parts of an experiment.

    Args:
        settings: an instance of `experiment_class(...)`.
        run_path: an existing run, whose copies of evolved functions are used in the other slots.
        trust_source: whether source code that a run has saved may be executed.

    Raises:
        ConfigError: if one of them cannot be built.
    """
    environments = make_environments(settings.task, settings.learner)
    evolved = parts.make(settings.evolve, settings.component)
    for part in evolved.parts.values():
        part.slot.check(part.source, part.component, settings.hyperparams)
    fixed = {}
    for slot in fixed_slots(settings):
        name = getattr(settings, slot)
        function, own = filling.fill(slot, name, run_path, trust_source=trust_source)
        fixed[slot] = _with_its_own(function, own)
    return Parts(evolved, fixed, environments)


def fixed_slots(settings: Any) -> list[str]:
    """Return the slots that a setting of an experiment fills."""
    return [slot for slot in filling.slots_of(settings.learner) if hasattr(settings, slot)]


def _with_its_own(function: Callable[..., Any], own: Any) -> Callable[..., Any]:
    """Return a slot function with meta-parameters of its own instead of those that evolve."""

    def of_slot(meta_params, *arguments):
        del meta_params
        return function(own, *arguments)

    return of_slot
