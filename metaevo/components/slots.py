"""The slots of learners that can be evolved: everything that sets one apart from the others."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import optax

from metaevo.components import learners
from metaevo.components.component import Component
from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from purerl.learners import HAND_WRITTEN
from purerl.types import PREDICTION_SIZE, Context, Hyperparams, MetaParams, Trajectory


def _gradient_step(
    make_optimizer: Callable, meta_params: MetaParams, context: Context
) -> jax.Array:
    """A step of an optimizer; a scalar, as a loss is."""
    optimizer = optax.with_extra_args_support(make_optimizer(meta_params, context))
    params = jnp.zeros(2)
    optimizer.update(params, optimizer.init(params), params, **context.extra_args())
    return jnp.float32(0.0)


def _targets(update_rule: Callable, meta_params: MetaParams, context: Context) -> jax.Array:
    """The targets of a short rollout; their sum, a scalar as a loss is.

    Raises:
        ValueError: if they have other shapes than a learner can use.
    """
    steps = 3, 2
    never, numbers = jnp.zeros(steps, bool), jnp.zeros((*steps, PREDICTION_SIZE))
    trajectory = Trajectory(numbers[..., 0], never, never, numbers[..., 0], numbers, numbers)
    targets = update_rule(meta_params, context, trajectory)
    policy, prediction, entropy = targets
    shapes = jnp.shape(policy), jnp.shape(prediction), jnp.shape(entropy)
    if shapes not in ((steps, steps, ()), (steps, (*steps, PREDICTION_SIZE), ())):
        raise ValueError(
            f"targets of {steps[0]} steps in {steps[1]} environments have the shapes "
            f"{', '.join(map(str, shapes))}; see purerl.types.Targets"
        )
    return jnp.sum(policy) + jnp.sum(prediction) + entropy


def _scheduled(schedule: Callable, meta_params: MetaParams, context: Context) -> jax.Array:
    """A schedule's hyperparams, which must be as many scalars as it was given; a scalar."""
    found = jax.tree.map(jnp.shape, schedule(meta_params, context))
    if found != jax.tree.map(jnp.shape, context.hyperparams):
        raise TypeError(f"must return the hyperparams that it is given, not {found}")
    return jnp.float32(0.0)


@dataclass(frozen=True)
class Slot:
    """A slot of learners."""

    name: str
    """the learner's argument, also the name of its signature in `purerl.types`"""
    scalars: tuple[str, ...] = ()
    """the scalar arguments of a loss after meta_params and context; it returns a scalar"""
    arguments: tuple[str, ...] = ()
    """the arguments of a function that is not a loss after meta_params and context"""
    trace: Callable[[Callable, Any, Context], Any] | None = None
    """calls a function that is no loss, and returns a scalar"""
    returns_numbers: bool = False
    """whether a function that is no loss returns a tree of numbers"""
    own_space: Mapping[str, PlainMapping] = field(default_factory=dict)
    """search spaces of single hand-written functions, which replace or extend the common space"""
    hooks: str | None = None
    """the module with `draw`, `observe`, `findings` and `CAPTIONS` for
    components of the slot without their own; imported when they are used, as it needs
    matplotlib"""

    @property
    def signature(self) -> str:
        """The call, as a user writes it."""
        arguments = "meta_params", "context", *self.scalars, *self.arguments
        return f"{self.name}({', '.join(arguments)})"

    @property
    def is_shared(self) -> bool:
        """Whether one compiled program can hold all functions: numbers are cheap to select from."""
        return bool(self.scalars) or self.returns_numbers

    def names(self, learner: str) -> tuple[str, ...]:
        """Return the hand-written functions that a learner's are compared with, reference first."""
        return learners.find(learner).slots[self.name]

    def functions(self, names: Sequence[str]) -> list[Callable[..., Any]]:
        """Return hand-written functions by their names."""
        return [HAND_WRITTEN[self.name][name] for name in names]

    def chosen_of(self, names: Sequence[str]) -> Callable[..., jax.Array]:
        """Return one function that selects a hand-written function; `meta_params` is its index."""
        functions = self.functions(names)

        def chosen(index, context, *arguments):
            results = (each(None, context, *arguments) for each in functions)
            return jax.tree.map(
                lambda *each: jax.lax.select_n(index, *map(jnp.float32, each)), *results
            )

        return chosen

    def rehearse(
        self,
        where: str,
        function: Callable[..., Any],
        meta_params: MetaParams,
        hyperparams: Hyperparams,
    ) -> Any:
        """Trace a function as the learner calls it, without compiling, and return its result.

        Raises:
            ConfigError: naming `where`, the setting that names the function, if it raises.
        """

        def call(meta_params):
            context = Context(hyperparams)
            if self.trace is not None:
                return self.trace(function, meta_params, context)
            return function(meta_params, context, *[jnp.float32(1.0)] * len(self.scalars))

        try:
            return jax.eval_shape(call, meta_params)
        except Exception as error:
            raise failure(f"{where}: {self.signature} fails", error) from error

    def check(self, name: str, component: Component, hyperparams: Hyperparams) -> None:
        """Trace a component as the learner calls it, without compiling.

        Raises:
            ConfigError: naming it, if it raises, has no meta-parameters or returns another type.
        """
        where = f"evolve = {name!r}"
        try:
            meta_params = jax.eval_shape(component.init, jax.random.key(0))
        except Exception as error:
            raise failure(f"{where}: init(key) fails", error) from error
        result = self.rehearse(where, component.apply, meta_params, hyperparams)
        if not jax.tree.leaves(meta_params):
            raise ConfigError(f"{where}: init returns no parameters: nothing can be evolved")
        if getattr(result, "shape", None) != ():
            raise ConfigError(f"evolve: {name} must return a scalar, not {result}")

    def hook(self, component: ModuleType, name: str) -> Any:
        """Return an attribute of a component's module, or else of the slot's module, or None."""
        if hasattr(component, name) or self.hooks is None:
            return getattr(component, name, None)
        return getattr(importlib.import_module(self.hooks), name, None)


def failure(what: str, error: BaseException) -> ConfigError:
    """Return a one-line error for code of the user's that has raised another one."""
    return ConfigError(f"{what}: " + " ".join(f"{type(error).__name__}: {error}".split()))


def _log_uniform(low: float, high: float) -> PlainDict:
    return {"log_uniform": [low, high]}


SLOTS: dict[str, Slot] = {
    slot.name: slot
    for slot in (
        Slot(
            "value_loss",
            ("prediction", "target", "old_prediction"),
            own_space={"sloped_squared": {"loss_slope": _log_uniform(3e-3, 1.0)}},
            hooks="metaevo.components.value_losses",
        ),
        Slot(
            "policy_loss",
            ("log_ratio", "advantage"),
            hooks="metaevo.components.policy_losses",
        ),
        Slot(
            "make_optimizer",
            trace=_gradient_step,
            # Adam's steps have the size of its learning rate; these depend on the gradient's, and
            # all of lion's have the size of Adam's largest.
            own_space={
                "lion": {"learning_rate": _log_uniform(1e-5, 1e-2)},
                "momentum": {"learning_rate": _log_uniform(1e-4, 1.0)},
                "rmsprop": {"learning_rate": _log_uniform(1e-5, 1e-1)},
                "sgd": {"learning_rate": _log_uniform(1e-3, 10.0)},
            },
            hooks="metaevo.components.optimizers",
        ),
        Slot(
            "update_rule",
            arguments=("trajectory",),
            trace=_targets,
            hooks="metaevo.components.update_rules",
            # a learned rule brings its own discounts, traces and exploration
            own_space={
                "a2c": {
                    "gamma": {"choice": [0.9, 0.95, 0.99]},
                    "gae_lambda": {"uniform": [0.5, 1.0]},
                    "entropy_coef": _log_uniform(1e-4, 0.1),
                }
            },
        ),
        Slot(
            "schedule",
            trace=_scheduled,
            returns_numbers=True,
            # A clip that falls to zero is half as wide on the average.
            own_space={"linear": {"clip_epsilon": _log_uniform(0.1, 1.0)}},
            hooks="metaevo.components.schedules",
        ),
    )
}
"""The slots by their names."""
