"""Check a learner of the user's own against `purerl.types.Learner`, without compilation."""

import dataclasses
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, failure, show
from metaevo.evolution.problem import check_like
from purerl import acting
from purerl.parts.own_task import OwnTask
from purerl.types import EpisodeSums, Learner, LearnerEntry, PyTree, Slot

METHODS = "init", "update", "train", "policy", "action_distribution"
"""Methods of every learner."""
SIZES = "num_updates", "frames_per_update", "batch_size"
"""Numbers in the config of every learner."""


def complaint(entry: Any) -> str:
    """Return why an object is no entry of a learner; empty if it is one."""
    if not isinstance(entry, LearnerEntry):
        return f"must be a purerl.types.LearnerEntry, not {type(entry).__name__}"
    if not isinstance(entry.slots, tuple) or not all(isinstance(s, Slot) for s in entry.slots):
        return "slots: must be a tuple of purerl.types.Slot"
    if not (isinstance(entry.config, type) and dataclasses.is_dataclass(entry.config)):
        return f"config = {show(entry.config)}: must be a frozen dataclass"
    if not hasattr(entry.hyperparams, "random_play"):
        return "hyperparams: must be a flax struct with the method random_play()"
    names = [slot.name for slot in entry.slots]
    for name in names:
        if names.count(name) > 1:
            return f"slots: two are called {name!r}"
        if not _takes(entry.make, name):
            kind = getattr(entry.make, "__name__", type(entry.make).__name__)
            return f"slots: {kind} takes no {name!r}, the name of a slot"
    return ""


def check_methods(name: str, learner: Learner) -> None:
    """Raise `ConfigError` if a method of a learner, or a number in its config, is missing."""
    inner = _inner(learner)
    kind = type(inner).__name__
    for method in METHODS:
        if not callable(getattr(inner, method, None)):
            raise ConfigError(f"learner = {show(name)}: {kind} has no method {method}")
    for size in SIZES:
        value = getattr(learner.config, size, None)
        if not isinstance(value, Integral) or value < 1:
            config = type(learner.config).__name__
            raise ConfigError(
                f"learner = {show(name)}: {config}.{size} = {value}: must be an integer above 0"
            )


def check_results(
    name: str, entry: LearnerEntry, learner: Learner, settings: tuple[PyTree, PyTree, PyTree]
) -> None:
    """Trace the methods of a learner, and check what they return.

    `settings` are hyperparams, meta-parameters or their shapes, and environment parameters, with
    which `init` succeeds.

    Raises:
        ConfigError: naming the method that fails, or whose result has another shape.
    """
    where = f"learner = {show(name)}: {type(_inner(learner)).__name__}"
    key, env_params = jax.random.key(0), settings[2]

    def traced(method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return jax.eval_shape(function, *arguments)
        except Exception as error:
            raise failure(f"{where}.{method} fails", error) from error

    number: Any = jax.ShapeDtypeStruct((), jnp.float32)
    state = traced("init", learner.init, key, *settings)
    found = traced("update", learner.update, state, *settings)
    if not (isinstance(found, tuple) and len(found) == 3):
        raise ConfigError(f"{where}.update: must return a state, EpisodeSums and a dict of metrics")
    after, sums, metrics = found
    check_like(state, after, f"{where}.update: state")
    check_like(EpisodeSums(*[number] * 5), sums, f"{where}.update: sums")
    if not isinstance(metrics, dict):
        raise ConfigError(f"{where}.update: metrics are {type(metrics).__name__}: must be a dict")
    check_like(dict.fromkeys(metrics, number), metrics, f"{where}.update: metrics")
    policy, memory = traced("policy", learner.policy, state), acting.begin(learner)
    obs, _ = jax.eval_shape(learner.env.reset, key, env_params)
    wanted = jax.eval_shape(learner.env.action_space(env_params).sample, key)
    for greedy in (True, False):

        def act(policy: PyTree, memory: PyTree, obs: Any, greedy: bool = greedy) -> Any:
            return acting.act(
                learner, policy, memory, key, obs, greedy=greedy, env_params=env_params
            )

        action, remembered = traced("action_distribution", act, policy, memory, obs)
        check_like(wanted, action, f"{where}.action_distribution: action")
        check_like(memory, remembered, f"{where}.action_distribution: memory")
    if entry.slot("value_loss") is not None:
        if not hasattr(_inner(learner), "value_targets"):
            raise ConfigError(f"{where} has the slot value_loss, but no method value_targets")
        own: Any = learner

        def observe(state: PyTree) -> jax.Array:
            predictions, targets = own.value_targets(state, settings[0], env_params)
            return jnp.stack([predictions, targets])

        traced("value_targets", observe, state)


def check_train(learner: Learner, where: str, option: str) -> None:
    """Raise `ConfigError` if a learner's `train` is its own, and does not take an option.

    `where` is the setting that needs it.
    """
    inner = _inner(learner)
    if not _takes(inner.train, option):
        raise ConfigError(
            f"{where}: {type(inner).__name__}.train takes no {option}; "
            "use `train = purerl.parts.training.train`"
        )


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function takes an argument of this name."""
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == name or each.kind == each.VAR_KEYWORD for each in parameters)


def _inner(learner: Any) -> Any:
    """Return the learner in a distribution of tasks, or any other one as it is."""
    return learner.learner if isinstance(learner, OwnTask) else learner
