"""`LearnerProblem`: train a learner with a candidate's parts; the fitness is how well it learns.

Every task is a program of its own, and a generation runs only the programs of the tasks that it
draws. The scores on several tasks are scaled: 0 is random play, 1 the hand-written reference.
"""

import copy
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, short_name, to_dict
from metaevo.config.plain import names_in
from metaevo.evolution import devices
from metaevo.evolution.loop import EvolutionConfig
from metaevo.evolution.problem import (
    Contender,
    Evaluation,
    MetaParams,
    MetaProblem,
)
from metaevo.parts import learners
from metaevo.parts.part import Filling, HandWritten, OneOf, Part, Parts, is_shared
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.task import Bound, Scale, Setup, Task, changed_settings, named_tasks
from purerl.types import LearnerEntry, Slot

if TYPE_CHECKING:
    from metaevo.evolution.postfix import Programs


class Drawn(NamedTuple):
    """One task of a generation."""

    place: jax.Array
    """[] int32, number of the task"""
    key: jax.Array
    """raw key of all that is drawn in it"""


class LearnerProblem(MetaProblem):
    """Train a learner with parts in its slots; the fitness is how well it learns.

    Examples:
        >>> loss = metaevo.parts.ValueLossNetwork(hidden_sizes=(16, 16))
        >>> problem = metaevo.LearnerProblem("q_learning", loss, ["GridWorld"])
        >>> found = metaevo.evolve(problem, generations=30)
    """

    elsewhere: "LearnerProblem | None" = None
    """the same parts on tasks that evolution does not see, as made by `on`"""
    tasks_per_generation: int = 1
    """tasks that a generation draws"""

    def __init__(
        self,
        learner: str | LearnerEntry = "ppo",
        parts: Part | str | Sequence[Part | str] = (),
        tasks: Sequence[Any] | Mapping[str, Task] = ("CartPole-v1",),
        *,
        train: Any = None,
        hyperparams: Any = None,
        fixed: Mapping[str, Any] | None = None,
        fitness: Any = None,
        tasks_per_generation: int | None = None,
        scales: Sequence[Scale] | None = None,
    ):
        """Bind the learner to all tasks; with several, measure the scale of each.

        Args:
            learner: its name, such as ppo or `my_learner.py:NAME`, or a `LearnerEntry`.
            parts: to evolve, each in a slot of its own; or references to their classes, such as
                `my_loss.py:Tilted`, for the default settings.
            tasks: tasks, by names of your own if you like, or names, classes or objects of
                environments.
            train: static settings of the learner: an object of its `Config`, or a dict.
            hyperparams: traced settings, an object of its `Hyperparams`, or a dict.
            fixed: what fills other slots, by their names: the name of a hand-written function, a
                function, a part, or what `metaevo.load` reads. By default the reference.
            fitness: weights of the fitness, a `FitnessConfig` or a dict.
            tasks_per_generation: of the tasks, how many a generation draws; by default all.
            scales: of several tasks, as measured before; empty for scores that are not scaled.

        Raises:
            ConfigError: naming what is wrong, before compilation.
        """
        self.learner = learners.name_of(learner)
        entry = learners.find(self.learner)
        self._train = changed_settings(entry.config, train, "train")
        self._hyperparams = changed_settings(entry.hyperparams, hyperparams, "hyperparams")
        self.weights = changed_settings(FitnessConfig, fitness, "fitness")
        self.parts = learners.parts_of(self.learner, parts)
        others = {slot.name: slot for slot in entry.slots if slot.name not in self.parts.by_slot}
        given = {name: slot.compared[0] for name, slot in others.items()} | dict(fixed or {})
        if unknown := sorted(set(given) - set(others)):
            allowed = ", ".join(others) or "none"
            raise ConfigError(
                f"fixed: {self.learner} has no slot {unknown[0]!r} that is not evolved; "
                f"allowed: {allowed}"
            )
        self.fixed: dict[str, Filling] = {}
        if given:
            from metaevo.parts.resolve import fill

            self.fixed = {name: fill(others[name], each) for name, each in given.items()}
        self._others = {slot: filling.function for slot, filling in self.fixed.items()}
        named = named_tasks(tasks)
        self._bind(named, "tasks." if isinstance(tasks, Mapping) or len(named) > 1 else "")
        count = len(named)
        self.tasks_per_generation = tasks_per_generation or count
        if not 1 <= self.tasks_per_generation <= count:
            raise ConfigError(
                f"tasks_per_generation = {tasks_per_generation}: there are {count} tasks"
            )
        if count > 1 and scales is None:
            from metaevo.tasks.scales import measure_scales

            scales = measure_scales(self)
        self.scales = tuple(scales or ())
        if len(self.scales) not in (0, count):
            raise ConfigError(f"scales: {len(self.scales)} for {count} tasks")

    def _bind(self, named: dict[str, Task], where: str) -> None:
        """Bind the learner to named tasks; their names follow `where` in errors, if it is given."""
        self.named, self._setups = named, dict[str, Setup]()
        for name, task in named.items():
            try:
                train = changed_settings(self._train, task.train, "train")
                hyperparams = changed_settings(self._hyperparams, task.hyperparams, "hyperparams")
                self._setups[name] = Setup.of(self.learner, train, hyperparams, task)
            except ConfigError as error:
                raise ConfigError(f"{where and f'{where}{name}: '}{error}") from None
        first = next(iter(self._setups.values()))
        for slot, part in self.parts.by_slot.items():
            key = f"parts: {type(part).__name__}"
            if not jax.tree.leaves(first.check(key, part)):
                reason = f"init returns no parameters for {slot}: nothing can be evolved"
                raise ConfigError(f"{key}: {reason}")
        for slot, (part, meta_params) in self.fixed.items():
            first.check(f"fixed.{slot}", part, meta_params)
        self.bound = [self._bound(name) for name in named]

    def _bound(self, name: str) -> Bound:
        """Bind the learner with its parts to a task."""
        setup, task, sample = self._setups[name], self.named[name], None
        where = f"tasks.{name}.sample"
        if task.sample:
            from metaevo.tasks.sampling import sampled

            setup, sample = sampled(setup, task, where)
        example = jax.eval_shape(self.parts.init, jax.random.key(0))
        bound = setup.bind(self._others | self.parts.functions(), example)
        if "updates" in task.sample:
            from metaevo.parts import conformance

            conformance.check_train(bound.learner, f"{where}.updates", "num_updates")
        return bound._replace(name=name, sample=sample).evaluated_for(self.weights)

    def on(
        self, tasks: Sequence[Any] | Mapping[str, Task], where: str = "tasks"
    ) -> "LearnerProblem":
        """Return the same parts on other tasks, whose scores are not scaled.

        `where` names the tasks in errors.
        """
        other = copy.copy(self)
        other._bind(named_tasks(tasks), f"{where}.")
        other.tasks_per_generation, other.scales, other.elsewhere = len(other.bound), (), None
        return other

    def unseen(self) -> "LearnerProblem | None":
        """Return the parts on tasks that evolution does not see, if there are any."""
        return self.elsewhere

    def with_parts(self, parts: Parts) -> "LearnerProblem":
        """Return the problem with other parts in the slots that are evolved."""
        other = copy.copy(self)
        other.parts = parts
        other.bound = [other._bound(name) for name in self.named]
        return other

    def reference(self, task: str | None = None) -> Bound:
        """Bind the learner with hand-written references in all evolved slots, without draws.

        `task` is by default the first one.
        """
        slots = {name: slot.functions[slot.compared[0]] for name, slot in self.slots.items()}
        return self._setups[task or self.tasks[0]].bind(self._others | slots)

    @property
    def slots(self) -> dict[str, Slot]:
        """The slots that are evolved, by their names."""
        return {name: learners.slot_of(self.learner, name) for name in self.parts.by_slot}

    @property
    def description(self) -> Any:
        """The learner with its settings, parts and tasks, as plain data."""
        slots = {slot.name: slot for slot in learners.find(self.learner).slots}
        settings = (self._train, self._hyperparams, self.weights)
        about: list[Any] = [
            (self.learner, *map(to_dict, settings)),
            [(name, _described(slots[name], part)) for name, part in self.parts.by_slot.items()],
            [(name, _described(slots[name], *each)) for name, each in self.fixed.items()],
            [(name, to_dict(task)) for name, task in self.named.items()],
        ]
        if names_in({"": about}):  # of networks, environments, the learner
            from metaevo.config import code

            about.append(code.digests({"": about}))
        return about

    @property
    def tasks(self) -> list[str]:  # type: ignore[override]
        """The names of the tasks."""
        return list(self.named)

    @property
    def part_names(self) -> list[str]:
        """Short names of the parts' classes."""
        return [short_name(learners.reference_to(part)) for part in self.parts.by_slot.values()]

    @property
    def title(self) -> str:
        """The evolved parts, the learner and the environments."""
        what = f"{' and '.join(self.part_names)} for {short_name(self.learner)}"
        return f"{what} on {', '.join(self.tasks)}"

    @property
    def working_set_bytes(self) -> int:
        """Working set of training one agent; see `choose_chunk_size`."""
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return max(one.working_set(shapes) for one in self.bound)

    def check_memory(self, population_size: int, config: EvolutionConfig) -> None:
        """Raise `ConfigError` if an evolution has too many agents, or too large ones."""
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        rows = population_size * config.seeds_per_candidate + config.validation_seeds
        num_devices = len(devices.select(config.num_devices))
        at_once = min((config.chunk_size or 1) * num_devices, rows)
        for one in self.bound:
            points = one.learner.config.num_updates
            one.check_memory("evolution", shapes, kept=0, at_once=at_once, points=points)

    @property
    def programs(self) -> "Programs | None":
        """Behaviour of the meta-parameters, if they are programs."""
        (part, *others) = self.parts.by_slot.values()
        return None if others else part.programs()

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of the evolved slots, as the learner's `make_train` takes them."""
        return self.parts.functions()

    def contenders(
        self, names: Sequence[str] = (), ranges: Mapping[str, Mapping[str, Any]] | None = None
    ) -> list[Contender]:
        """Return hand-written rivals of the parts, the references of all slots first.

        The others have another function in one slot. Rivals that differ in numbers share a program.

        Args:
            names: functions to choose in each slot that has at least one of them; by default all.
            ranges: of hyperparameters, by names of functions, in addition to those of the learner.

        Raises:
            ConfigError: for the name of an unknown function.
        """
        slots, own_ranges = self.slots, ranges or {}
        known = [name for slot in slots.values() for name in slot.compared]
        for key, given in (("contenders", names), ("own", own_ranges)):
            if unknown := sorted(set(given) - set(known)):
                allowed = ", ".join(known)
                raise ConfigError(f"{key}: {unknown[0]!r} is unknown; allowed: {allowed}")
        first, others = {}, []
        for name, slot in slots.items():
            chosen = [each for each in slot.compared if each in names]
            first[name], *rest = chosen or (slot.compared[:1] if names else slot.compared)
            others += [(name, each) for each in rest]
        problems: dict[tuple[str, ...], LearnerProblem] = {}
        rivals = []
        for functions in [first, *({**first, name: each} for name, each in others)]:
            filled = {name: _hand_written(slots[name], each) for name, each in functions.items()}
            parts = {name: filling.part for name, filling in filled.items()}
            program = tuple(each for name, each in functions.items() if not is_shared(slots[name]))
            if program not in problems:
                problems[program] = self.with_parts(Parts(parts))
            tuned: dict[str, Any] = {}
            for name, each in functions.items():
                declared = slots[name].ranges.get(each, {}).items()
                tuned |= {key: rule for key, rule in declared if hasattr(self._hyperparams, key)}
                tuned |= own_ranges.get(each, {})
            own: Any = {name: filling.meta_params for name, filling in filled.items()}
            own = own if len(own) > 1 else next(iter(own.values()))
            title = " + ".join(functions.values())
            rivals.append(Contender(title, problems[program], own, ranges=tuned))
        return rivals

    def init(self, key: jax.Array) -> MetaParams:
        """Return meta-parameters of the parts."""
        return self.parts.init(key)

    def draw_task(self, key: jax.Array, index: jax.Array | int) -> Drawn:
        """Return task number `index` of a generation; a task recurs after all others."""
        count = len(self.bound)
        order = jax.random.permutation(key, count)
        own = jax.random.fold_in(key, index)
        return Drawn(order[index % count].astype(jnp.int32), jax.random.key_data(own))

    def frames(self, task: Drawn) -> jax.Array:
        """Return the environment steps of an evaluation on a task, [] int32."""

        def steps(one: Bound, drawn: jax.Array) -> jax.Array:
            updates = None
            if one.sample is not None:
                updates = one.sample.updates(jax.random.wrap_key_data(drawn))
            return jnp.int32(one.frames(updates))

        each = [functools.partial(steps, one) for one in self.bound]
        return jax.lax.switch(task.place, each, task.key)

    def evaluate(self, key: jax.Array, meta_params: MetaParams, task: Drawn) -> Evaluation:
        """Train one agent on a task from `draw_task`.

        The metrics of a single task without distributions have plain names.
        """
        if len(self.bound) == 1 and self.bound[0].sample is None:
            (one,) = self.bound
            result = one.train(jax.random.fold_in(key, 0), one.hyperparams, meta_params)
            return Evaluation(*one.score(self.weights, result))
        each = [functools.partial(self._evaluate, place) for place in range(len(self.bound))]
        return jax.lax.switch(task.place, each, key, meta_params, task.key)

    def _evaluate(
        self, place: int, key: jax.Array, meta_params: MetaParams, drawn: jax.Array
    ) -> Evaluation:
        one = self.bound[place]
        if one.sample is None:
            result, updates = one.train(key, one.hyperparams, meta_params), None
        else:
            drawn = jax.random.wrap_key_data(drawn)
            result, updates = one.sample.train(one, key, meta_params, drawn)
        score, measured = one.score(self.weights, result, updates)
        if self.scales:
            low, high = self.scales[place]
            score = (score - low) / (high - low)
        measured = {"fitness": score, **measured}
        metrics = {f"{each.name}/{name}": jnp.float32(jnp.nan)
                   for each in self.bound for name in measured}  # fmt: skip
        own = {f"{one.name}/{name}": jnp.float32(each) for name, each in measured.items()}
        return Evaluation(jnp.float32(score), {**metrics, **own})


def digest(tree: Any) -> str:
    """Return the SHA-256 of the values of a pytree."""
    leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
    return hashlib.sha256(b"".join(leaves)).hexdigest()


def _hand_written(slot: Slot, name: str) -> Filling:
    """Return a hand-written part, of which one program has all where it can select them."""
    if is_shared(slot):
        functions = tuple(slot.functions[each] for each in slot.compared)
        return Filling(OneOf(slot.name, functions), np.int32(slot.compared.index(name)))
    return Filling(HandWritten(slot.name, slot.functions[name]), ())


def _described(slot: Slot, part: Part, meta_params: Any = None) -> Any:
    """Return what a part in a slot computes, as plain data; functions have their names there."""
    if isinstance(part, OneOf):
        return [_described(slot, HandWritten(slot.name, each)) for each in part.functions]
    if isinstance(part, HandWritten):
        names = [name for name, each in slot.functions.items() if each is part.function]
        kind = type(part.function).__qualname__
        return names[0] if names else getattr(part.function, "__qualname__", kind)
    return type(part).__qualname__, to_dict(part), digest(meta_params)
