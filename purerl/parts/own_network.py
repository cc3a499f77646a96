"""Networks of the user's: flax modules in the setting `network` of a learner.

    PPO                   module(obs) -> policy parameters, value
    PPO with a memory     module(obs, memory) -> policy parameters, value, memory
    Q-learning            module(obs) -> values of all actions

A module sees one axis of samples: observations [B, *obs_shape] float32. Nested observations, which
learners store as vectors, come as the environment shows them, with discrete parts one-hot.
docs/how-to/network.md has examples.
"""

import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast.arithmetic import conv_general_dilated, dot_general
from purerl.parts.policies import LOG_STD, Categorical, Gaussian, Policy
from purerl.parts.rollouts import forget
from purerl.types import Environment, PyTree, SettingError

LAPACK = r"= (?:cholesky|eigh?|fft|geqrf|householder_product|lu|qr|schur|svd)\b"
"""Operations in the text of a traced function that must not be vmapped on a CPU."""
SAMPLES = 7919
"""B, with which a module is traced: a number that no other axis has."""


@dataclass(frozen=True)
class OwnNetwork:
    """A module in an environment; a base class, whose subclasses check the outputs.

    Raises:
        SettingError: if the module fails, or its outputs do not fit.
    """

    module: nn.Module
    env: Environment

    def init(self, key: jax.Array, obs: jax.Array) -> PyTree:
        """Return parameters; observations are [..., *obs_shape]."""
        return self.module.init(key, *self._inputs(obs))

    @property
    def is_recurrent(self) -> bool:
        """Whether the module has a memory."""
        return hasattr(self.module, "initial_memory")

    def no_memory(self, *shape: int) -> PyTree:
        """Return memories [*shape, ...] at the start of episodes; None without one."""
        if not self.is_recurrent:
            return None
        memory = self.module.apply({}, method="initial_memory")
        return jax.tree.map(
            lambda x: jnp.broadcast_to(jnp.asarray(x), (*shape, *jnp.shape(x))), memory
        )

    def _inputs(self, obs: jax.Array) -> tuple[PyTree, ...]:
        """Return the module's inputs [B, ...] at the start of episodes."""
        shape, samples = self._seen(obs)
        return (samples, self.no_memory(math.prod(shape))) if self.is_recurrent else (samples,)

    def _seen(self, obs: jax.Array) -> tuple[tuple[int, ...], PyTree]:
        """Return the leading axes [...] of observations, and samples [B, ...] as they are shown."""
        params = self.env.default_params
        shape = self.env.observation_space(params).shape
        samples, restored = obs.reshape(-1, *shape), getattr(self.env, "restored", None)
        samples = samples if restored is None else restored(samples, params)
        return obs.shape[: obs.ndim - len(shape)], samples

    def _apply(self, variables: PyTree, *inputs: PyTree) -> Any:
        with nn.intercept_methods(_fast):
            return self.module.apply(variables, *inputs)

    @cached_property
    def outputs(self) -> PyTree:
        """The shapes of the module's outputs, which is traced with SAMPLES samples."""
        space = self.env.observation_space(self.env.default_params)
        obs = jax.ShapeDtypeStruct((SAMPLES, *space.shape), jnp.float32)
        try:
            inputs = jax.eval_shape(self._inputs, obs)
            start, variables = jax.make_jaxpr(self.module.init, return_shape=True)(
                jax.random.key(0), *inputs
            )
            call, outputs = jax.make_jaxpr(self.module.apply, return_shape=True)(variables, *inputs)
        except Exception as error:
            seen = shown(jax.eval_shape(lambda obs: self._seen(obs)[1], obs))
            wants_memory = "missing 1 required positional argument" in str(error)
            hint = "; a memory needs initial_memory()" if wants_memory else ""
            raise self._error(f"fails for observations {seen}: {_text(error)}{hint}") from error
        if other := sorted(set(variables) - {"params"}):
            raise self._error(f"has variables in {other[0]!r}: only parameters are supported")
        if found := re.search(LAPACK, f"{start}{call}"):
            raise self._error(
                f"calls LAPACK ({found[0][2:]}), which can deadlock for many agents; instead of "
                "flax's orthogonal initialiser take purerl.parts.networks.orthogonal"
            )
        return outputs

    def _check(self, what: str, found: Any, needed: str, *allowed: Any) -> None:
        """Raise an error if the shapes of an output are none of the allowed ones."""
        shapes = jax.tree.map(jnp.shape, found)
        if shapes not in allowed:
            raise self._error(f"returns {what}{shown(found)}: {needed}")

    def _error(self, reason: str) -> SettingError:
        return SettingError(f"network = {type(self.module).__name__}: {reason}")


@dataclass(frozen=True)
class OwnActorCritic(OwnNetwork):
    """A module that returns a policy and a value, with the interface of `ActorCritic`.

    If the module returns only the mean of continuous actions, the logarithm of their standard
    deviation is a parameter that is independent of the state.
    """

    policy_size: int
    """logits of a discrete policy, or means of a continuous one"""
    gaussian: Callable[..., Gaussian] | None
    """the distribution of continuous actions; None for discrete ones"""

    def __post_init__(self) -> None:
        outputs, count = self.outputs, 3 if self.is_recurrent else 2
        expected = ", ".join(("policy parameters", "value", "memory")[:count])
        if not isinstance(outputs, tuple) or len(outputs) != count:
            raise self._error(f"returns {shown(outputs)}: must be {expected}")
        one, shape = (SAMPLES, self.policy_size), f"[B, {self.policy_size}]"
        heads: list[Any] = [one]
        needed = f"logits {shape}"
        if self.gaussian is not None:
            heads.append((one, one))
            needed = f"a mean {shape} or (mean, log_std) ({shape}, {shape})"
        self._check("policy parameters ", outputs[0], f"the actions need {needed}", *heads)
        self._check("a value ", outputs[1], "must be [B]", (SAMPLES,), (SAMPLES, 1))
        if self.is_recurrent:
            before = jax.eval_shape(lambda: self.no_memory(SAMPLES))
            found, needed = shown(outputs[2], dtype=True), shown(before, dtype=True)
            if found != needed:
                wanted = f"must have the structure of initial_memory, {needed}"
                raise self._error(f"returns a memory {found}: {wanted}")

    def init(self, key: jax.Array, obs: jax.Array) -> PyTree:
        """Return parameters; observations are [..., *obs_shape]."""
        params = super().init(key, obs)
        if self.gaussian is None or isinstance(self.outputs[0], tuple):
            return params
        return {**params, "log_std": jnp.zeros(self.policy_size)}

    def apply(
        self, params: PyTree, obs: jax.Array, memory: PyTree = None, done: jax.Array | None = None
    ) -> tuple[Policy, jax.Array, PyTree]:
        """Return the policy, the value [...] and the next memory; see `ActorCritic.__call__`."""
        shape, samples = self._seen(obs)
        if done is None:
            before = self.no_memory(*shape) if memory is None else memory
            before = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(shape) :]), before)
            head, value, memory = self._step(params, samples, before)
        else:
            head, value, memory = self._through_time(params, samples, memory, done)
        head, value, memory = jax.tree.map(
            lambda x: x.reshape(*shape, *x.shape[1:]), (head, value, memory)
        )
        if self.gaussian is None:
            return Categorical(head), value, memory
        if not isinstance(head, tuple):
            return self.gaussian(head, params["log_std"]), value, memory
        return self.gaussian(head[0], jnp.clip(head[1], *LOG_STD)), value, memory

    def _step(
        self, params: PyTree, samples: PyTree, memory: PyTree
    ) -> tuple[PyTree, jax.Array, PyTree]:
        """Return the policy parameters, values [B] and next memories of B samples."""
        variables = {name: params[name] for name in params if name != "log_std"}
        inputs = (samples, memory) if self.is_recurrent else (samples,)
        head, value, *rest = self._apply(variables, *inputs)
        head, value = jax.tree.map(lambda x: x.astype(jnp.float32), (head, value))
        return head, value.reshape(value.shape[0]), rest[0] if rest else None

    def _through_time(
        self, params: PyTree, samples: PyTree, memory: PyTree, done: jax.Array
    ) -> tuple[PyTree, jax.Array, PyTree]:
        """Return the outputs [T * n, ...] of n sequences, whose memories are reset by `done`."""
        start = self.no_memory()
        steps = jax.tree.map(lambda x: x.reshape(*done.shape, *x.shape[1:]), samples)

        def step(memory, inputs):
            samples, done = inputs
            head, value, remembered = self._step(params, samples, memory)
            return forget(remembered, done, start), (head, value, remembered)

        _, outputs = jax.lax.scan(step, memory, (steps, done))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), outputs)


def _fast(next_function: Any, args: Any, kwargs: Any, context: Any) -> Any:
    """Let layers of flax compute as the default networks do; an interceptor of flax."""
    layer = context.module
    if isinstance(layer, nn.Dense) and layer.dot_general is None:
        object.__setattr__(layer, "dot_general", dot_general)
    if isinstance(layer, nn.Conv) and layer.conv_general_dilated is None:
        object.__setattr__(layer, "conv_general_dilated", conv_general_dilated)
    return next_function(*args, **kwargs)


def module_of(given: Any, action_space: Any) -> nn.Module:
    """Return a module that a user gives, or a function or class of the action space returns.

    Raises:
        SettingError: if it is none.
    """
    name = getattr(given, "__name__", repr(given))
    kinds = "a flax module, or a function of the action space that returns one"
    wanted = f"network = {name}: must be {kinds}"
    try:
        module = given if isinstance(given, nn.Module) else given(action_space)
    except Exception as error:
        raise SettingError(f"{wanted}: {_text(error)}") from error
    if not isinstance(module, nn.Module):
        raise SettingError(f"{wanted}, not {type(module).__name__}")
    return module


def shown(outputs: Any, *, dtype: bool = False) -> str:
    """Return the shapes of outputs, for a message; B is the axis of samples."""

    def of_array(x: Any) -> str:
        axes = ["B" if axis == SAMPLES else str(axis) for axis in x.shape]
        return f"{x.dtype if dtype else ''}[{', '.join(axes)}]"

    return str(jax.tree.map(of_array, outputs)).replace("'", "")


def _text(error: Exception) -> str:
    """Return an error in one line."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" ...")
