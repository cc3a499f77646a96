"""An experiment: its settings, and the parts that they describe, built before anything compiles."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, Le

from metaevo.agents.fitness import FitnessConfig
from metaevo.agents.train_learner import Task
from metaevo.components import COMPONENTS, Component
from metaevo.config import ConfigError, show
from metaevo.config.numbers import check_numbers
from metaevo.held_out.evaluation import EvaluationConfig
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.outer_loop.strategy import StrategyConfig
from metaevo.runs.tracking.destination import tracking_uri
from purerl import envs
from purerl.learners import LEARNERS, LearnerEntry
from purerl.types import Context, Learner

MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class TaskConfig:
    """What agents are trained on."""

    env: str | tuple[str, ...] = "CartPole-v1"
    """an environment's name, or several: then fitness is normalised and averaged"""
    env_params: dict[str, Any] = field(default_factory=dict)
    """overrides of the environment's parameters; with several environments, by their names"""

    def items(self) -> list[tuple[str, dict[str, Any]]]:
        """Return every environment's name and overrides."""
        if isinstance(self.env, str):
            return [(self.env, self.env_params)]
        return [(name, self.env_params.get(name, {})) for name in self.env]


@dataclass(frozen=True)
class RecordConfig:
    """Randomness, checkpoints and tracking: what every run has."""

    seed: Annotated[int, Ge(0), Le(MAX_SEED)] = 0
    """all randomness of the run comes from it"""
    keep_checkpoints: Annotated[int, Gt(0)] = 3
    """how many of the last ones are kept"""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """mirror metrics and figures to Weights & Biases"""
    wandb_project: str = "metaevo"
    """the project there; the experiment in MLflow"""
    mlflow: str | None = None
    """mirror them to MLflow: a tracking URI, or local for the database ./mlruns.db"""
    track_seeds: Annotated[int, Ge(0)] = 8
    """agents of a training, the first ones, whose learning curves are mirrored singly"""
    track_wait: Annotated[float, Interval(ge=0, le=86400)] = 60.0
    """seconds that a run waits at its end, at most, for what is still to be sent"""
    quick: bool = False
    """marks a quick look, whose sizes are tiny and whose numbers mean nothing: set by --quick"""

    def __post_init__(self) -> None:
        """Refuse what is no tracking URI."""
        if self.mlflow:
            tracking_uri(self.mlflow)


@dataclass(frozen=True)
class RunConfig(RecordConfig):
    """The same, and when an evolution is saved."""

    checkpoint_every: Annotated[int, Gt(0)] = 5
    """generations between two checkpoints"""


def experiment_class(raw: dict[str, Any], component: str | None) -> type:
    """Return the dataclass of an experiment's settings; some sections depend on others' names.

    Args:
        raw: the unvalidated settings, of which `evolve` and `learner` are read.
        component: what is evolved if `evolve` does not say, a key of `COMPONENTS`.

    Raises:
        ConfigError: for an unknown component or learner, or a learner without the component's slot.
    """
    name = raw.get("learner", "ppo")
    learner = learner_entry(name)
    component = raw.get("evolve", component)
    if not isinstance(component, str) or component not in COMPONENTS:
        allowed = ", ".join(COMPONENTS)
        if component is None:
            raise ConfigError(f"missing key 'evolve': what to evolve, one of: {allowed}")
        raise ConfigError(f"evolve = {show(component)} is not known; allowed: {allowed}")
    slot = COMPONENTS[component].SLOT
    if slot not in learner.slots:
        has = ", ".join(learner.slots)
        raise ConfigError(f"learner = {name!r} has no slot {slot!r}; it has: {has}")
    sections = {
        "task": TaskConfig,
        "train": learner.module.Config,
        "hyperparams": learner.module.Hyperparams,
        "component": COMPONENTS[component].Config,
        "fitness": FitnessConfig,
        "strategy": StrategyConfig,
        "evolution": EvolutionConfig,
        "evaluation": EvaluationConfig,
        "run": RunConfig,
    }
    return settings_class(name, sections, {"evolve": (str, component, "the component to evolve")})


def settings_class(
    learner: str,
    sections: dict[str, type],
    scalars: dict[str, tuple[Any, Any, str]] | None = None,
) -> type:
    """Return a frozen dataclass with the learner's name and one field per section.

    Args:
        learner: its name.
        sections: their classes.
        scalars: type, default (a class makes a new one) and documentation of settings that stand
            beside the sections.
    """
    fields: list[tuple[str, Any, Any]] = [("learner", str, field(default=learner))]
    for key, (kind, default, text) in (scalars or {}).items():
        how = "default_factory" if isinstance(default, type) else "default"
        fields.append((key, kind, field(**{how: default}, metadata={"doc": text})))
    fields += [(key, cls, field(default_factory=cls)) for key, cls in sections.items()]
    checked = {"__post_init__": check_numbers}
    return dataclasses.make_dataclass("Settings", fields, frozen=True, namespace=checked)


def learner_entry(name: Any) -> LearnerEntry:
    """Return a learner by its name.

    Raises:
        ConfigError: for an unknown one.
    """
    if not isinstance(name, str) or name not in LEARNERS:
        raise ConfigError(f"learner = {show(name)} is not known; allowed: {', '.join(LEARNERS)}")
    return LEARNERS[name]


def make_learner(
    settings: Any, env: Any, env_params: Any, meta_params: Any = None, **slots: Any
) -> Learner:
    """Bind the learner of the settings to an environment.

    Args:
        settings: of which `learner`, `train` and `hyperparams` are read.
        env: the environment.
        env_params: its parameters.
        meta_params: an example of what the functions in the slots take.
        slots: those functions.

    Raises:
        ConfigError: if the learner cannot act in the environment.
    """
    try:  # traces the networks, which compiles nothing
        learner = LEARNERS[settings.learner].make(settings.train, env, **slots)
        jax.eval_shape(
            lambda key: learner.init(key, settings.hyperparams, meta_params, env_params),
            jax.random.key(0),
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"task.env: learner {settings.learner!r} cannot act in {env.name}: {error}"
        ) from error
    return learner


def make_environments(task: TaskConfig, learner: str) -> list[tuple[str, Any, Any]]:
    """Build the environments of a task as a learner needs them: name, environment, parameters.

    Raises:
        ConfigError: for an unknown environment or parameter.
    """
    if not task.items():
        raise ConfigError("task.env must name at least one environment")
    if not isinstance(task.env, str) and (unknown := set(task.env_params) - set(task.env)):
        raise ConfigError(f"task.env_params: {sorted(unknown)} are not among task.env")
    built = []
    default = {"observations": LEARNERS[learner].observations}
    for name, overrides in task.items():
        try:
            env, params = envs.make(name, **{**default, **overrides})
        except (TypeError, ValueError) as error:
            raise ConfigError(f"task.env: {error}") from error
        _rehearse(name, env, params)
        built.append((name, env, params))
    return built


def _rehearse(name: str, env: Any, params: Any) -> None:
    """Trace a reset and a step, which compiles nothing: somebody's environment may raise anything.

    Raises:
        ConfigError: naming the environment.
    """

    def play(key):
        _, state = env.reset(key, params)
        return env.step(key, state, env.action_space(params).sample(key), params)

    try:
        jax.eval_shape(play, jax.random.key(0))
    except Exception as error:
        raise ConfigError(
            f"task.env: {name} cannot be reset and stepped: {type(error).__name__}: {error}"
        ) from error


class Parts(NamedTuple):
    """What an experiment is made of."""

    component: Component
    slot: str
    environments: list[tuple[str, Any, Any]]

    def tasks(self, settings: Any, slot_function: Any) -> list[Task]:
        """Bind the learner to every environment, with a function in the component's slot."""
        return [
            Task(name, make_learner(settings, env, params, **{self.slot: slot_function}), params)
            for name, env, params in self.environments
        ]


def make_parts(settings: Any) -> Parts:
    """Build the parts of an experiment.

    Raises:
        ConfigError: if one of them cannot be built.
    """
    module = COMPONENTS[settings.evolve]
    environments = make_environments(settings.task, settings.learner)
    component = module.make(settings.component)
    _rehearse_component(settings.evolve, component, module.SLOT, settings.hyperparams)
    return Parts(component, module.SLOT, environments)


SLOT_SCALARS = {
    "value_loss": ("prediction", "target", "old_prediction"),
    "policy_loss": ("log_ratio", "advantage"),
    "make_optimizer": (),
}
"""What a slot's function takes after meta_params and context."""


def _rehearse_component(name: str, component: Component, slot: str, hyperparams: Any) -> None:
    """Trace a component as its slot calls it, which compiles nothing.

    Raises:
        ConfigError: naming it, if it raises, evolves nothing or returns something else.
    """
    scalars = SLOT_SCALARS[slot]

    def call(meta_params):
        context = Context(hyperparams)
        result: Any = component.apply(meta_params, context, *ones)
        if slot == "make_optimizer":
            optimizer, params = optax.with_extra_args_support(result), jnp.zeros(2)
            optimizer.update(params, optimizer.init(params), params, **context.extra_args())
            return jnp.float32(0.0)
        return result

    ones, signature = [jnp.float32(1.0)] * len(scalars), "init(key)"
    try:
        meta_params = jax.eval_shape(component.init, jax.random.key(0))
        signature = f"{slot}({', '.join(('meta_params', 'context', *scalars))})"
        result = jax.eval_shape(call, meta_params)
    except Exception as error:
        raise ConfigError(
            f"evolve = {name!r}: {signature} fails: {type(error).__name__}: {error}"
        ) from error
    if not jax.tree.leaves(meta_params):
        raise ConfigError(f"evolve = {name!r}: init returns no parameters: nothing can be evolved")
    if getattr(result, "shape", None) != ():
        raise ConfigError(f"evolve: {name} must return a scalar, not {result}")


def check_baselines(settings: Any, slot: str) -> None:
    """Refuse a comparison with hand-written functions that there are none of.

    Raises:
        ConfigError: naming the key to change.
    """
    if LEARNERS[settings.learner].slots[slot]:
        return
    none = f"{settings.learner} has no hand-written {slot} to compare {settings.evolve} with"
    evaluation = getattr(settings, "evaluation", None)  # a sweep has none
    if evaluation is not None and evaluation.seeds:
        raise ConfigError(f"evaluation.seeds = {evaluation.seeds}: {none}; allowed: 0")
    if len(settings.task.items()) > 1:
        raise ConfigError(
            f"task.env = {list(settings.task.env)!r}: {none}, as normalising several environments "
            "needs; allowed: a single one"
        )
