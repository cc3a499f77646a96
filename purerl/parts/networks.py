"""The networks that learners share."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn.initializers import Initializer

from purerl.fast.arithmetic import ACTIVATIONS, conv_general_dilated, dot_general, orthogonal, tanh
from purerl.fast.switch import triton_module
from purerl.parts.own_network import OwnActorCritic, module_of
from purerl.parts.policies import LOG_STD, Categorical, Gaussian, Policy, SquashedGaussian
from purerl.types import Environment, SettingError

LECUN_NORMAL = nn.initializers.lecun_normal()
"""Initialiser with variance 1 / inputs (LeCun et al. 1998). DQN learns faster with it than with
orthogonal kernels: docs/reference/dqn.md."""
OF_DEFAULT = (
    "hidden_sizes", "activation", "shared_network", "layer_norm", "recurrent_size", "dueling",
    "state_dependent_std",
)  # fmt: skip
"""Settings of learners that only describe the default network."""


def dense(size: int, kernel_init: Initializer) -> nn.Dense:
    """Return a dense layer with fast products."""
    return nn.Dense(size, kernel_init=kernel_init, dot_general=dot_general)


class Torso(nn.Module):
    """Features of an observation: a multilayer perceptron, behind a convolution for images.

    Images are recognised by their shape [height, width, channels] and pass through 16 filters of
    3 x 3, the network of MinAtar (Young & Tian 2019, section 4).
    """

    obs_ndim: int
    hidden_sizes: Sequence[int]
    activation: str
    kernel_init: Initializer
    layer_norm: bool = False
    """before each activation (Ba et al. 2016); at each position of an image over the filters"""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map [..., *obs_shape] to [..., hidden_sizes[-1]]."""
        activation = ACTIVATIONS[self.activation]
        batch_shape = x.shape[: x.ndim - self.obs_ndim]
        if self.obs_ndim == 3:
            init, fast = self.kernel_init, conv_general_dilated
            x = nn.Conv(16, (3, 3), padding="VALID", kernel_init=init, conv_general_dilated=fast)(x)
            x = activation(nn.LayerNorm(name="ConvNorm_0")(x) if self.layer_norm else x)
        x = x.reshape(*batch_shape, -1)
        for size in self.hidden_sizes:
            x = dense(size, self.kernel_init)(x)
            x = activation(nn.LayerNorm()(x) if self.layer_norm else x)
        return x


def output(torso: Torso, head: nn.Dense, obs: jax.Array) -> jax.Array:
    """Return the outputs [..., out] of a head on a torso, for observations [..., *obs_shape].

    On a GPU both can be one kernel, unless the outputs of single layers are wanted, too.
    """
    kernels = triton_module("perceptron")
    single = torso.is_initializing() or torso.is_mutable_collection("intermediates")
    if kernels is None or single:
        return head(torso(obs))
    if torso.obs_ndim == 1 and torso.hidden_sizes and not torso.layer_norm:
        parameters = torso.variables["params"]
        names = [f"Dense_{i}" for i in range(len(torso.hidden_sizes))]
        dense = [parameters[name] for name in names if name in parameters]
        layers = tuple((p["kernel"], p["bias"]) for p in (*dense, head.variables["params"]))
        # Flax raises an error for parameters of another network.
        fits = [bias.size for _, bias in layers] == [*torso.hidden_sizes, head.features]
        if fits and kernels.is_fused(layers, obs, torso.activation):
            return kernels.perceptron(layers, obs, torso.activation)
    return head(torso(obs))


class Recurrence(nn.Module):
    """A gated recurrent unit (Cho et al. 2014), for one step or for whole sequences.

    Its state is its output. An episode begins with zeros. Recurrent kernels start orthogonal, the
    kernels of inputs with a variance of 1 / inputs.
    """

    size: int

    @nn.compact
    def __call__(
        self, features: jax.Array, memory: jax.Array, done: jax.Array | None = None
    ) -> jax.Array:
        """Return the memory after some features.

        Args:
            features: [..., F]; with `done` [T * n, F], n sequences of T steps, time first.
            memory: [..., size] before these features; with `done` [n, size], before the first step.
            done: [T, n] bool, whether an episode ended with a step, which resets the memory.

        Returns:
            [..., size]; with `done` after every step, before any reset: [T * n, size].
        """
        cell = nn.GRUCell(self.size, activation_fn=tanh, recurrent_kernel_init=orthogonal())
        if done is None:
            return cell(memory, features)[0]

        def step(cell, memory, inputs):
            features, done = inputs
            remembered, _ = cell(memory, features)
            return jnp.where(done[:, None], 0.0, remembered), remembered

        features, kernels = features.reshape(*done.shape, -1), triton_module("recurrence")
        if kernels is None:
            scan = nn.scan(step, variable_broadcast="params", split_rngs={"params": False})
            _, remembered = scan(cell, memory, (features, done))
        else:
            remembered = kernels.through_time(cell, features, memory, done)
        return remembered.reshape(-1, self.size)


class ActorCritic(nn.Module):
    """A policy head and a value head, on a shared torso or on separate torsos.

    All kernels are initially orthogonal, with a small scale in the policy's output layer and unit
    scale in the value's, as in PPO's usual implementations (Engstrom et al. 2020; Andrychowicz et
    al. 2021).

    With `recurrent_size`, every torso is followed by a recurrence.
    """

    obs_ndim: int
    policy_size: int
    """logits of a discrete policy, or means of a continuous one"""
    continuous: bool
    config: Any
    """PPO's, which describes its settings"""

    def setup(self) -> None:
        """Create the layers."""
        config, init = self.config, orthogonal(2.0**0.5)
        torso = (self.obs_ndim, config.hidden_sizes, config.activation, init, config.layer_norm)
        self.actor_torso = Torso(*torso)
        self.critic_torso = self.actor_torso if config.shared_network else Torso(*torso)
        if config.recurrent_size:
            self.actor_memory = Recurrence(config.recurrent_size)
            if not config.shared_network:
                self.critic_memory = Recurrence(config.recurrent_size)
        self.policy_head = dense(self.policy_size, orthogonal(0.01))
        self.value_head = dense(1, orthogonal())
        if config.state_dependent_std:
            self.log_std: Any = dense(self.policy_size, orthogonal(0.01))
        elif self.continuous:
            self.log_std = self.param("log_std", nn.initializers.zeros, (self.policy_size,))

    def __call__(
        self, obs: jax.Array, memory: jax.Array | None = None, done: jax.Array | None = None
    ) -> "tuple[Policy, jax.Array, jax.Array | None]":
        """Return the policy, the value [...] and the next memory [..., M] at observations.

        Args:
            obs: [..., *obs_shape]; with `done` [T * n, *obs_shape], n sequences of T steps, time
                first.
            memory: [..., M] before these observations, by default zeros. With `done` [n, M],
                before the first step. Not used without recurrence, which returns None.
            done: [T, n] bool, whether an episode ended with a step, which resets the memory.
        """
        config, size = self.config, self.config.recurrent_size
        if not (size or config.shared_network or config.state_dependent_std):
            value = output(self.critic_torso, self.value_head, obs).squeeze(-1)
            head = output(self.actor_torso, self.policy_head, obs)
            return self._policy(head, None), value, None
        actor, critic = self.actor_torso(obs), self.critic_torso(obs)
        if size:
            before: Any = self.no_memory(*critic.shape[:-1]) if memory is None else memory
            memory = actor = self.actor_memory(actor, before[..., :size], done)
            if config.shared_network:
                critic = actor
            else:
                critic = self.critic_memory(critic, before[..., size:], done)
                memory = jnp.concatenate([actor, critic], axis=-1)
        value = self.value_head(critic).squeeze(-1)
        return self._policy(self.policy_head(actor), actor), value, memory

    def _policy(self, head: jax.Array, actor: jax.Array | None) -> Policy:
        """Return the policy of a head's outputs, and of the features if its deviation has them."""
        if not self.continuous:
            return Categorical(head)
        log_std = self.log_std
        if actor is not None and self.config.state_dependent_std:
            log_std = jnp.clip(self.log_std(actor), *LOG_STD)
        gaussian = SquashedGaussian if self.config.squash_actions else Gaussian
        return gaussian(head, log_std)

    def no_memory(self, *shape: int) -> jax.Array | None:
        """Return the memory [*shape, M] at the start of episodes; None without recurrence."""
        size = self.config.recurrent_size * (1 if self.config.shared_network else 2)
        return jnp.zeros((*shape, size)) if size else None


def actor_critic(env: Environment, config: Any) -> ActorCritic | OwnActorCritic:
    """Build the actor-critic that fits an environment's spaces, or the user's own.

    Raises:
        ValueError: if the action space is neither discrete nor a vector, or actions without bounds
            are to be squashed.
        SettingError: if the user's network does not fit.
    """
    space = env.action_space(env.default_params)
    discrete = hasattr(space, "n")
    if not discrete and len(getattr(space, "shape", ())) != 1:
        raise ValueError(f"{env.name}: PPO needs a discrete or a vector action space")
    if discrete and (config.squash_actions or config.state_dependent_std):
        raise ValueError(
            f"{env.name}: has discrete actions; squash_actions and state_dependent_std are for "
            "continuous ones"
        )
    if config.squash_actions and not np.isfinite([space.low, space.high]).all():
        raise ValueError(f"{env.name}: its actions have no bounds: squash_actions must be false")
    ndim, policy_size = obs_ndim(env), int(space.n) if discrete else int(space.shape[0])
    if config.network is None:
        return ActorCritic(ndim, policy_size, not discrete, config)
    gaussian = SquashedGaussian if config.squash_actions else Gaussian
    module = module_of(config.network, space)
    return OwnActorCritic(module, env, policy_size, None if discrete else gaussian)


def check_config(config: Any) -> None:
    """Check the settings of the default network, which a user's leaves at their defaults.

    Raises:
        SettingError: naming the first that is invalid.
    """
    if config.activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise SettingError(f"activation = {config.activation!r}: must be one of {known}")
    for each in dataclasses.fields(config) if config.network is not None else ():
        value = getattr(config, each.name)
        if each.name in OF_DEFAULT and value != each.default:
            raise SettingError(
                f"{each.name} = {value!r}: has no effect with a network of your own; leave it at "
                f"its default, {each.default!r}"
            )


def obs_ndim(env: Environment) -> int:
    """Return the number of axes of an environment's observations.

    Raises:
        ValueError: if observations are nested.
    """
    space = env.observation_space(env.default_params)
    if not hasattr(space, "shape"):
        raise ValueError(
            f"{env.name}: observations in a {type(space).__name__} must become vectors: build it "
            "with purerl.envs.make"
        )
    return len(space.shape)


def num_actions(env: Environment, learner: str) -> int:
    """Return the number of an environment's actions.

    Raises:
        ValueError: naming the learner, if the action space is not discrete.
    """
    space = env.action_space(env.default_params)
    if not hasattr(space, "n"):
        raise ValueError(f"{env.name}: {learner} needs a discrete action space")
    return int(space.n)
