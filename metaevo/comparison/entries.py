"""Entries of a held-out comparison: learned and hand-written functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from metaevo.comparison.evaluation import JudgedSettings
from metaevo.comparison.tuning import Entry, tuning_space
from metaevo.components.parts import Evolved, Part, of_key
from metaevo.components.slots import SLOTS
from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.training.fitness import Windows
from metaevo.training.population import Population
from metaevo.training.task import Experiment
from metaevo.tuning.space import dotted_space
from purerl.types import MetaParams

Functions = Mapping[str, Callable[..., Any]]


class Replacement(NamedTuple):
    """A part that replaces the evolved part of its slot in a comparison."""

    part: Part
    meta_params: MetaParams


def entries_of(
    experiment: Experiment,
    learned: PlainMapping,
    replacements: Mapping[str, Replacement] | None = None,
) -> dict[str, Entry]:
    """Return the entries by name.

    Args:
        experiment: the evolved parts.
        learned: meta-parameters by name of the entry.
        replacements: by name of the entry; the other parts are the first learned entry's.

    Returns:
        learned entries, replacements, the references of all slots, and the references with another
        function in one slot at a time.
    """
    settings, evolved = experiment.settings, experiment.evolved
    config = settings.evaluation
    space = tuning_space(settings)
    found = make_population(experiment, evolved.functions(), next(iter(learned.values())))
    entries = {name: Entry(found, each, space) for name, each in learned.items()}
    first = next(iter(learned.values()))
    for name, each in (replacements or {}).items():
        (function,) = Evolved({each.part.name: each.part}, False).functions().values()
        functions = with_another(evolved, each.part.slot.name, function)
        both = {"found": first, "other": each.meta_params}
        entries[name] = Entry(make_population(experiment, functions, both), both, space)
    programs: dict[tuple[str, ...], Population] = {}
    for combination in combinations(experiment, config.contenders):
        single = {s: name for s, name in combination.items() if not SLOTS[s].is_shared}
        key = tuple(single.values())
        if key not in programs:
            programs[key] = make_population(experiment, *_program(experiment, single))
        chosen = {
            slot: np.int32(SLOTS[slot].names(settings.learner).index(name))
            for slot, name in combination.items()
            if SLOTS[slot].is_shared
        }
        own = own_space(settings, combination)
        name = " + ".join(combination.values())
        entries[name] = Entry(programs[key], chosen, tuning_space(settings, own))
    return entries


def make_population(experiment: Experiment, functions: Functions, example: Any) -> Population:
    """Return a program that trains variants; `example` are meta-parameters of the functions."""
    settings, task = experiment.settings, experiment.task(functions, example)
    points = settings.evaluation.curve_points
    return Population(
        task,
        settings.hyperparams,
        example,
        settings.fitness,
        log_every=Windows.at_most(points, task.learner.config.num_updates).every,
        chunk_size=settings.evolution.chunk_size,
    )


def with_another(evolved: Evolved, slot: str, function: Callable[..., Any]) -> Functions:
    """Return the learned functions with another one in a slot.

    Their meta-parameters are a dict with `found`, of the learned ones, and `other`.
    """
    found = {name: of_key("found", own) for name, own in evolved.functions().items()}
    return {**found, slot: of_key("other", function)}


def combinations(experiment: Experiment, contenders: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the hand-written entries as names by slot, the references first.

    Args:
        experiment: the evolved parts.
        contenders: names to select in each slot that has at least one; all by default.
    """
    names, learner = {}, experiment.settings.learner
    for slot in experiment.evolved.references(learner):
        every = SLOTS[slot].names(learner)
        names[slot] = [name for name in every if name in contenders] or (
            every[:1] if contenders else every
        )
    references = {slot: each[0] for slot, each in names.items()}
    return [references] + [
        {**references, slot: name} for slot in references for name in names[slot][1:]
    ]


def own_space(settings: JudgedSettings, combination: Mapping[str, str]) -> PlainDict:
    """Return the further or different ranges of a combination."""
    rules: PlainDict = {}
    known = vars(settings.hyperparams)
    for slot, name in combination.items():
        declared = SLOTS[slot].own_space.get(name, {})
        rules |= {key: rule for key, rule in declared.items() if key in known}
        rules |= settings.evaluation.own.get(name, {})
    return rules


def check(experiment: Experiment) -> None:
    """Check the search spaces of all contenders.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    settings = experiment.settings
    tuning_space(settings)
    names: set[str] = set()
    for combination in combinations(experiment):
        tuning_space(settings, own_space(settings, combination))
        names |= set(combination.values())
    given = {"own": settings.evaluation.own, "contenders": settings.evaluation.contenders}
    for key, chosen in given.items():
        if unknown := set(chosen) - names:
            raise ConfigError(
                f"evaluation.{key}: {sorted(unknown)} are not hand-written functions here; "
                f"allowed: {', '.join(sorted(names))}"
            )
    for name, rules in settings.evaluation.own.items():
        others = set(rules) - set(dotted_space(settings.evaluation.space))
        if settings.evaluation.sampler == "grid" and others:
            raise ConfigError(
                f"evaluation.own.{name}: {sorted(others)} are not in evaluation.space, and in a "
                "grid every contender races as many settings; use another evaluation.sampler"
            )


def _program(experiment: Experiment, single: Mapping[str, str]) -> tuple[Functions, Any]:
    """Return functions that select a hand-written function at run time, if the slot allows it."""
    learner = experiment.settings.learner
    functions: dict[str, Callable[..., Any]] = {}
    example: PlainDict = {}
    for part in experiment.evolved.parts.values():
        slot = part.slot
        if slot.name in single:
            (functions[slot.name],) = slot.functions([single[slot.name]])
        else:
            functions[slot.name] = of_key(slot.name, slot.chosen_of(slot.names(learner)))
            example[slot.name] = np.int32(0)
    return functions, example
