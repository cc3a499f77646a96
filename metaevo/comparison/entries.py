"""Entries of a held-out comparison: learned and hand-written functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from metaevo.comparison.evaluation import JudgedSettings
from metaevo.comparison.tuning import Entry, tuning_space
from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.parts.part import Filling, HandWritten, OneOf, Part, Parts
from metaevo.tasks.binding import Experiment
from metaevo.tasks.fitness import Windows
from metaevo.tasks.population import Population
from metaevo.tuning.space import dotted_space
from purerl.types import Slot


def entries_of(
    experiment: Experiment,
    learned: PlainMapping,
    replacements: Mapping[str, Filling] | None = None,
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
    first = next(iter(learned.values()))
    found = make_population(experiment, evolved, first)
    entries = {name: Entry(found, each, space) for name, each in learned.items()}
    for name, filling in (replacements or {}).items():
        parts, meta_params = evolved.with_part(first, filling)
        entries[name] = Entry(make_population(experiment, parts, meta_params), meta_params, space)
    slots = experiment.slots()
    programs: dict[tuple[str, ...], Population] = {}
    for combination in combinations(experiment, config.contenders):
        parts = _program(slots, combination)
        key = tuple(name for slot, name in combination.items() if not slots[slot].is_shared)
        meta_params = parts.init(jax.random.key(0))
        if key not in programs:
            programs[key] = make_population(experiment, parts, meta_params)
        for slot, name in combination.items():
            if slots[slot].is_shared:
                index = np.int32(slots[slot].compared.index(name))
                meta_params = index if len(slots) == 1 else {**meta_params, slot: index}
        own = own_space(settings, slots, combination)
        name = " + ".join(combination.values())
        entries[name] = Entry(programs[key], meta_params, tuning_space(settings, own))
    return entries


def make_population(experiment: Experiment, parts: Parts, example: Any) -> Population:
    """Return a program that trains variants; `example` are meta-parameters of the parts."""
    settings, task = experiment.settings, experiment.task(parts.functions(), example)
    points = settings.evaluation.curve_points
    return Population(
        task,
        settings.hyperparams,
        example,
        settings.fitness,
        log_every=Windows.at_most(points, task.learner.config.num_updates).every,
        chunk_size=settings.evolution.chunk_size,
    )


def combinations(experiment: Experiment, contenders: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the hand-written entries as names by slot, the references first.

    Args:
        experiment: the evolved parts.
        contenders: names to select in each slot that has at least one; all by default.
    """
    names = {}
    for slot, of_learner in experiment.slots().items():
        every = of_learner.compared
        names[slot] = [name for name in every if name in contenders] or (
            every[:1] if contenders else every
        )
    references = {slot: each[0] for slot, each in names.items()}
    return [references] + [
        {**references, slot: name} for slot in references for name in names[slot][1:]
    ]


def own_space(
    settings: JudgedSettings, slots: Mapping[str, Slot], combination: Mapping[str, str]
) -> PlainDict:
    """Return the further or different ranges of a combination."""
    rules: PlainDict = {}
    known = vars(settings.hyperparams)
    for slot, name in combination.items():
        declared = slots[slot].ranges.get(name, {})
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
        tuning_space(settings, own_space(settings, experiment.slots(), combination))
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


def _program(slots: Mapping[str, Slot], combination: Mapping[str, str]) -> Parts:
    """Return parts that select a hand-written function at run time, if the slot allows it."""
    parts: dict[str, Part] = {}
    for name, slot in slots.items():
        if slot.is_shared:
            parts[name] = OneOf(name, tuple(slot.functions[each] for each in slot.compared))
        else:
            parts[name] = HandWritten(name, slot.functions[combination[name]])
    return Parts(parts)
