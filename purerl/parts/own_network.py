"""Networks of the user's: flax modules in the setting `network` of a learner.

    PPO                   module(obs) -> policy parameters, value
    PPO with a memory     module(obs, memory) -> policy parameters, value, memory
    Q-learning            module(obs) -> values of all actions

A module sees one axis of samples: observations [B, *obs_shape] float32. Nested observations, which
learners store as vectors, come as the environment shows them, with discrete parts one-hot.
docs/how-to/network.md has examples.
"""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """A module in an environment; a base class.

    Raises:
        SettingError: if the module fails, or its outputs do not fit.
    """

    module: nn.Module
    env: Environment

    def __post_init__(self) -> None:
        raise NotImplementedError

    def init(self, key: jax.Array, obs: jax.Array) -> PyTree:
        """Return parameters; observations are [..., *obs_shape]."""
        return self.module.init(key, *self._inputs(obs))

    def _inputs(self, obs: jax.Array) -> tuple[PyTree, ...]:
        """Return the module's inputs [B, ...] at the start of episodes."""
        return (self._samples(obs),)

    def _samples(self, obs: jax.Array) -> PyTree:
        """Return observations [..., *obs_shape] as the environment shows them [B, ...]."""
        params = self.env.default_params
        shape = self.env.observation_space(params).shape
        samples = obs.reshape(-1, *shape)
        restored = getattr(self.env, "restored", None)
        return samples if restored is None else restored(samples, params)

    def _apply(self, variables: PyTree, *inputs: PyTree) -> Any:
        with nn.intercept_methods(_fast):
            return self.module.apply(variables, *inputs)

    def _batch_shape(self, obs: jax.Array) -> tuple[int, ...]:
        ndim = len(self.env.observation_space(self.env.default_params).shape)
        return obs.shape[: obs.ndim - ndim]

    def _outputs(self) -> PyTree:
        """Trace the module, and return the shapes of its outputs."""
        space = self.env.observation_space(self.env.default_params)
        obs = jax.ShapeDtypeStruct((SAMPLES, *space.shape), jnp.float32)
        inputs = jax.eval_shape(self._inputs, obs)
        try:
            start, variables = jax.make_jaxpr(self.module.init, return_shape=True)(
                jax.random.key(0), *inputs
            )
            call, outputs = jax.make_jaxpr(self.module.apply, return_shape=True)(variables, *inputs)
        except Exception as error:
            raise self._error(
                f"fails for observations {shown(inputs[0])}: {_text(error)}"
            ) from error
        if other := sorted(set(variables) - {"params"}):
            raise self._error(f"has variables in {other[0]!r}: only parameters are supported")
        if found := re.search(LAPACK, f"{start}{call}"):
            raise self._error(
                f"calls LAPACK ({found[0][2:]}), which can deadlock for many agents; instead of "
                "flax's orthogonal initialiser take purerl.parts.networks.orthogonal"
            )
        return outputs

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
        if self.is_recurrent:
            self._check_start()
        elif _num_inputs(self.module) > 1:
            raise self._error("__call__ takes a memory: initial_memory() must return the first one")
        outputs, count = self._outputs(), 3 if self.is_recurrent else 2
        expected = ("policy parameters", "value", "memory")[:count]
        if not isinstance(outputs, tuple) or len(outputs) != count:
            hint = "; with a memory it needs initial_memory()" if count == 2 else ""
            raise self._error(f"returns {shown(outputs)}: must be {', '.join(expected)}{hint}")
        self._check_policy(outputs[0])
        if shapes(outputs[1]) not in ((SAMPLES,), (SAMPLES, 1)):
            raise self._error(f"returns a value {shown(outputs[1])}: must be [B]")
        if self.is_recurrent:
            before = jax.eval_shape(lambda: self.no_memory(SAMPLES))
            if not _equal(outputs[2], before):
                raise self._error(
                    f"returns a memory {shown(outputs[2], dtype=True)}: must have the structure "
                    f"of initial_memory, {shown(before, dtype=True)}"
                )

    def _check_policy(self, head: Any) -> None:
        one = SAMPLES, self.policy_size
        allowed = [one] if self.gaussian is None else [one, (one, one)]
        if shapes(head) not in allowed:
            shape = f"[B, {self.policy_size}]"
            pair = f"a mean {shape} or (mean, log_std) ({shape}, {shape})"
            raise self._error(
                f"returns policy parameters {shown(head)}: the actions need "
                f"{f'logits {shape}' if self.gaussian is None else pair}"
            )

    def _check_start(self) -> None:
        try:
            memory = jax.eval_shape(self.no_memory)
        except Exception as error:
            raise self._error(f"initial_memory() fails: {_text(error)}") from error
        if not jax.tree.leaves(memory):
            raise self._error("initial_memory() returns no arrays: must be the memory of one agent")

    @property
    def is_recurrent(self) -> bool:
        """Whether the module has a memory."""
        return hasattr(self.module, "initial_memory")

    def init(self, key: jax.Array, obs: jax.Array) -> PyTree:
        """Return parameters; observations are [..., *obs_shape]."""
        params = super().init(key, obs)
        head = jax.eval_shape(self.module.apply, params, *self._inputs(obs))[0]
        if self.gaussian is None or isinstance(head, tuple):
            return params
        return {**params, "log_std": jnp.zeros(self.policy_size)}

    def _inputs(self, obs: jax.Array) -> tuple[PyTree, ...]:
        samples = self._samples(obs)
        if not self.is_recurrent:
            return (samples,)
        return samples, self.no_memory(math.prod(self._batch_shape(obs)))

    def apply(
        self, params: PyTree, obs: jax.Array, memory: PyTree = None, done: jax.Array | None = None
    ) -> tuple[Policy, jax.Array, PyTree]:
        """Return the policy, the value [...] and the next memory; see `ActorCritic.__call__`."""
        shape, samples = self._batch_shape(obs), self._samples(obs)
        if not self.is_recurrent:
            head, value, memory = self._step(params, samples, None)
        elif done is None:
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
        mean, log_std = head if isinstance(head, tuple) else (head, params["log_std"])
        if isinstance(head, tuple):
            log_std = jnp.clip(log_std, *LOG_STD)
        return self.gaussian(mean, log_std), value, memory

    def _step(
        self, params: PyTree, samples: PyTree, memory: PyTree
    ) -> tuple[PyTree, jax.Array, PyTree]:
        """Return the policy parameters, values [B] and next memories of B samples."""
        variables = {name: params[name] for name in params if name != "log_std"}
        outputs = self._apply(variables, *((samples,) if memory is None else (samples, memory)))
        head, value, *rest = outputs
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

    def no_memory(self, *shape: int) -> PyTree:
        """Return memories [*shape, ...] at the start of episodes; None without one."""
        if not self.is_recurrent:
            return None
        memory = self.module.apply({}, method="initial_memory")
        return jax.tree.map(
            lambda x: jnp.broadcast_to(jnp.asarray(x), (*shape, *jnp.shape(x))), memory
        )


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
    name = getattr(given, "__name__", type(given).__name__)
    module = given
    if not isinstance(given, nn.Module):
        if not callable(given):
            raise SettingError(
                f"network = {given!r}: must be a flax module, or a function of the action space "
                "that returns one"
            )
        try:
            module = given(action_space)
        except Exception as error:
            raise SettingError(
                f"network = {name}: fails for the action space: {_text(error)}"
            ) from error
    if not isinstance(module, nn.Module):
        kind = type(module).__name__
        raise SettingError(f"network = {name}: must return a flax module, not {kind}")
    return module


def _num_inputs(module: nn.Module) -> int:
    """Return the number of inputs that a module needs."""
    inputs = inspect.signature(type(module).__call__).parameters.values()
    needed = [each for each in inputs if each.default is each.empty]
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
               for each in needed) - 1  # fmt: skip


def shapes(outputs: Any) -> Any:
    """Return the shape of an array, or the shapes in a tuple; None for anything else."""
    if isinstance(outputs, tuple):
        return tuple(map(shapes, outputs))
    return getattr(outputs, "shape", None)


def _equal(one: PyTree, other: PyTree) -> bool:
    structures: Any = jax.tree.structure(one), jax.tree.structure(other)
    if structures[0] != structures[1]:
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)


def shown(outputs: Any, *, dtype: bool = False) -> str:
    """Return the shapes of outputs, for a message; B is the axis of samples."""
    if isinstance(outputs, Mapping):
        inside = ", ".join(f"{key}: {shown(each, dtype=dtype)}" for key, each in outputs.items())
        return f"{{{inside}}}"
    if isinstance(outputs, tuple | list):
        return f"({', '.join(shown(each, dtype=dtype) for each in outputs)})"
    if not hasattr(outputs, "shape"):
        return type(outputs).__name__
    axes = ["B" if axis == SAMPLES else str(axis) for axis in outputs.shape]
    return f"{outputs.dtype if dtype else ''}[{', '.join(axes)}]"


def _text(error: Exception) -> str:
    """Return an error in one line."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" ...")
