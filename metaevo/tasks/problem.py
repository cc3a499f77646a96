"""`LearnerProblem`: train a learner with a candidate's parts; the fitness is how well it learns.

    problem = LearnerProblem("ppo", [ValueLossNetwork()], [Task("CartPole-v1")])
    task = problem.draw_task(key, 0)
    problem.evaluate(key, meta_params, task)    # trains one agent from scratch

Every task is a program of its own, and a generation runs only the programs of the tasks that it
draws. The scores on several tasks are scaled: 0 is random play, 1 the hand-written reference.
"""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, to_dict
from metaevo.config.code import short_name
from metaevo.evolution import devices
from metaevo.evolution.problem import Contender, Evaluation, MetaParams, MetaProblem, Programs
from metaevo.parts import learners
from metaevo.parts.part import HandWritten, OneOf, Part, Parts, check
from metaevo.runs.terminal import Progress
from metaevo.tasks import sampling
from metaevo.tasks.arguments import (
    Setup,
    describe,
    experiment_of,
    fillings_of,
    named_tasks,
    naming,
    parts_of,
    settings_of,
)
from metaevo.tasks.binding import Experiment, check_part
from metaevo.tasks.bound import Bound, working_set
from metaevo.tasks.distributions import bind, updates_of, with_drawn
from metaevo.tasks.fitness import FitnessConfig, all_finite, fitness, measures
from metaevo.tasks.scale import measure_scale
from metaevo.tasks.task import Scale, Task
from purerl.types import LearnerEntry, Slot


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
        name = learners.name_of(learner)
        entry = learners.find(name)
        setup = Setup(
            name,
            settings_of(entry.config, train, "train"),
            settings_of(entry.hyperparams, hyperparams, "hyperparams"),
        )
        self.learner, self.parts = name, parts_of(name, parts)
        self.weights = settings_of(FitnessConfig, fitness, "fitness")
        self._setup, self._fixed = setup, fillings_of(entry, name, self.parts, fixed or {})
        named = named_tasks(tasks)
        self._bind(named, "tasks" if isinstance(tasks, Mapping) or len(named) > 1 else "")
        for part in self.parts.by_slot.values():
            if not jax.tree.leaves(jax.eval_shape(part.init, jax.random.key(0))):
                where = f"parts: {type(part).__name__}"
                raise ConfigError(f"{where}: init returns no parameters: nothing can be evolved")
        count = len(self.bound)
        if count > 1 and scales != ():
            self.use_scales(self.measure_scales() if scales is None else scales)
        self.drawn = tasks_per_generation or count
        if not 1 <= self.drawn <= count:
            raise ConfigError(
                f"tasks_per_generation = {tasks_per_generation}: there are {count} tasks"
            )

    def _bind(self, named: dict[str, Task], where: str) -> None:
        """Bind the learner to named tasks; `where` names them in errors."""
        self.named, self._experiments = named, {}
        for key, task in named.items():
            with naming(f"{where}.{key}: " if where else ""):
                functions = {slot: each.function for slot, each in self._fixed.items()}
                self._experiments[key] = experiment_of(self._setup, self.parts, functions, task)
        self._check_parts(self.experiment)
        self.bound = [bind(key, named[key], each) for key, each in self._experiments.items()]

    def on(
        self, tasks: Sequence[Any] | Mapping[str, Task], where: str = "tasks"
    ) -> "LearnerProblem":
        """Return the same parts on other tasks, whose scores are not scaled.

        `where` names the tasks in errors.
        """
        other = copy.copy(self)
        other._bind(named_tasks(tasks), where)
        other.drawn, other.elsewhere = len(other.bound), None
        return other

    def unseen(self) -> "LearnerProblem | None":
        """Return the parts on tasks that evolution does not see, if there are any."""
        return self.elsewhere

    def measure_scales(self, *, seed: int = 0, quick: bool = False) -> list[Scale]:
        """Measure random play and the hand-written reference on each task; see `measure_scale`."""
        tasks = Progress(self.bound, desc="measuring the scale of each task", leave=False)
        return [
            measure_scale(
                one.name,
                self._experiments[one.name].reference(),
                one.hyperparams,
                self.weights,
                seed=seed,
                quick=quick,
            )
            for one in tasks
        ]

    def use_scales(self, scales: Sequence[Scale]) -> None:
        """Set the scale of each task.

        Raises:
            ConfigError: for another number of scales than of tasks.
        """
        if len(scales) != len(self.bound):
            raise ConfigError(f"scales: {len(scales)} for {len(self.bound)} tasks")
        pairs = zip(self.bound, scales, strict=True)
        self.bound = [one._replace(scale=scale) for one, scale in pairs]

    def _check_parts(self, experiment: Experiment) -> None:
        for part in self.parts.by_slot.values():
            where, setup = f"parts: {type(part).__name__}", experiment.settings
            shapes = check(where, part)
            check_part(where, part, shapes, setup, experiment.environment)

    @property
    def experiment(self) -> Experiment:
        """The learner with its parts on the first task."""
        return next(iter(self._experiments.values()))

    @property
    def description(self) -> Any:
        """The learner with its settings, parts and tasks, as plain data."""
        setup = self._setup
        slots = {slot.name: slot for slot in learners.find(self.learner).slots}
        return [
            (self.learner, to_dict(setup.train), to_dict(setup.hyperparams), to_dict(self.weights)),
            [(name, describe(slots[name], part)) for name, part in self.parts.by_slot.items()],
            [(name, describe(slots[name], *each)) for name, each in self._fixed.items()],
            [(name, to_dict(task)) for name, task in self.named.items()],
        ]

    @property
    def tasks(self) -> list[str]:  # type: ignore[override]
        """The names of the tasks."""
        return [one.name for one in self.bound]

    @property
    def part_names(self) -> list[str]:
        """Short names of the parts' classes."""
        return [short_name(learners.reference_to(part)) for part in self.parts.by_slot.values()]

    @property
    def title(self) -> str:
        """The evolved parts, the learner and the environments."""
        what = f"{' and '.join(self.part_names)} for {short_name(self.learner)}"
        return f"{what} on {', '.join(dict.fromkeys(self.tasks))}"

    @property
    def tasks_per_generation(self) -> int:
        """How many of them a generation draws."""
        return self.drawn

    @property
    def working_set_bytes(self) -> int:
        """Working set of training one agent; see `choose_chunk_size`."""
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return max(working_set(one, one.hyperparams, shapes) for one in self.bound)

    @property
    def programs(self) -> Programs | None:  # type: ignore[override]
        """Behaviour of the meta-parameters, if they are programs."""
        (part, *others) = self.parts.by_slot.values()
        return None if others else part.programs()

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of the evolved slots, as the learner's `make_train` takes them."""
        return self.parts.functions()

    def with_parts(self, parts: Parts) -> "LearnerProblem":
        """Return the problem with other parts in the slots that are evolved."""
        other = copy.copy(self)
        other.parts = parts
        other._experiments = {
            key: each._replace(evolved=parts) for key, each in self._experiments.items()
        }
        other.bound = [
            bind(key, self.named[key], each)._replace(scale=before.scale)
            for (key, each), before in zip(other._experiments.items(), self.bound, strict=True)
        ]
        return other

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
        slots = {slot: learners.slot_of(self.learner, slot) for slot in self.parts.by_slot}
        every: dict[str, Sequence[str]] = {}
        for slot, each in slots.items():
            chosen = [name for name in each.compared if name in names]
            every[slot] = chosen or (each.compared[:1] if names else each.compared)
        known = [name for slot in slots.values() for name in slot.compared]
        for key, given in (("contenders", names), ("own", ranges or ())):
            if unknown := sorted(set(given) - set(known)):
                allowed = ", ".join(known)
                raise ConfigError(f"{key}: {unknown[0]!r} is unknown; allowed: {allowed}")
        first = {slot: found[0] for slot, found in every.items()}
        combinations = [first] + [
            {**first, slot: name} for slot, found in every.items() for name in found[1:]
        ]
        problems: dict[tuple[str, ...], LearnerProblem] = {}
        rivals = []
        for combination in combinations:
            single = tuple(n for slot, n in combination.items() if not slots[slot].is_shared)
            if single not in problems:
                problems[single] = self.with_parts(_hand_written(slots, combination))
            meta_params: dict[str, Any] = {
                slot: np.int32(slots[slot].compared.index(name)) if slots[slot].is_shared else ()
                for slot, name in combination.items()
            }
            tuned: dict[str, Any] = {}
            for slot, name in combination.items():
                fields = vars(self.bound[0].hyperparams)
                declared = slots[slot].ranges.get(name, {})
                tuned |= {key: rule for key, rule in declared.items() if key in fields}
                tuned |= (ranges or {}).get(name, {})
            own = meta_params if len(slots) > 1 else next(iter(meta_params.values()))
            title = " + ".join(combination.values())
            rivals.append(Contender(title, problems[single], own, ranges=tuned))
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

        def steps(one: Bound, key: jax.Array) -> jax.Array:
            config, length = one.learner.config, updates_of(_values(one, key))
            count = config.num_updates if length is None else length
            return jnp.int32(count * config.frames_per_update)

        return jax.lax.switch(
            task.place, [functools.partial(steps, one) for one in self.bound], task.key
        )

    def evaluate(self, key: jax.Array, meta_params: MetaParams, task: Drawn) -> Evaluation:
        """Train one agent on a task from `draw_task`."""
        if self._is_plain:
            score, measured = self._train(self.bound[0], jax.random.fold_in(key, 0), meta_params)
            return Evaluation(score, measured)
        each = [functools.partial(self._evaluate, one) for one in self.bound]
        return jax.lax.switch(task.place, each, key, meta_params, task.key)

    @property
    def _is_plain(self) -> bool:
        """Whether there is one task, without distributions; its metrics have plain names."""
        return len(self.bound) == 1 and not self.bound[0].sample

    def _evaluate(
        self, one: Bound, key: jax.Array, meta_params: MetaParams, drawn: jax.Array
    ) -> Evaluation:
        score, measured = self._train(one, key, meta_params, _values(one, drawn))
        if one.scale is not None:
            score = (score - one.scale.random) / (one.scale.reference - one.scale.random)
        measured = {"fitness": score, **measured}
        metrics = {f"{each.name}/{name}": jnp.float32(jnp.nan)
                   for each in self.bound for name in measured}  # fmt: skip
        own = {f"{one.name}/{name}": jnp.float32(each) for name, each in measured.items()}
        return Evaluation(jnp.float32(score), {**metrics, **own})

    def _train(
        self,
        one: Bound,
        key: jax.Array,
        meta_params: MetaParams,
        values: Mapping[str, jax.Array] | None = None,
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Train one agent with values that were drawn.

        Returns:
            its score, NaN if it diverged, and its measures.
        """
        values = values or {}
        changes = sampling.of_prefix(values, sampling.HYPERPARAMS)
        hyperparams = one.hyperparams.replace(**changes)
        env_params = with_drawn(one.env_params, values) if values else one.env_params
        inputs = devices.as_inputs((hyperparams, meta_params, env_params))
        length, scale = updates_of(values), values.get(sampling.REWARD_SCALE)
        more = {} if length is None else {"num_updates": length}
        result: Any = one.learner.train(key, *inputs, **more)
        sums = result.episodes
        if scale is not None:
            sums = sums._replace(returns=sums.returns / scale, rewards=sums.rewards / scale)
        measured = measures(sums, length)
        finite = all_finite(one.learner.policy(result.state))
        return jnp.where(finite, fitness(self.weights, measured), jnp.nan), measured


def _hand_written(slots: Mapping[str, Slot], names: Mapping[str, str]) -> Parts:
    """Return hand-written parts, of which one program has all where it can select them."""
    by_slot: dict[str, Part] = {}
    for name, slot in slots.items():
        if slot.is_shared:
            by_slot[name] = OneOf(name, tuple(slot.functions[each] for each in slot.compared))
        else:
            by_slot[name] = HandWritten(name, slot.functions[names[name]])
    return Parts(by_slot)


def _values(one: Bound, drawn: jax.Array) -> dict[str, jax.Array]:
    return sampling.draw_all(one.sample, jax.random.wrap_key_data(drawn))
