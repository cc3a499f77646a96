"""REINFORCE with a value network (Williams 1992), a learner of one's own for discrete actions.

metaevo train --learner examples/reinforce.py:LEARNER
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct

from purerl.parts import rollouts, training
from purerl.parts.policies import Categorical
from purerl.types import EpisodeSums, LearnerEntry, Slot, Transition


@dataclass(frozen=True)
class Config(training.BaseConfig):
    """Static settings, in addition to the numbers of environments and steps."""

    hidden_size: int = 64
    """units of the hidden layers"""


class Hyperparams(struct.PyTreeNode):
    """Traced settings."""

    learning_rate: float = 3e-3
    gamma: float = 0.99
    """discount factor"""

    def random_play(self) -> "Hyperparams":
        """Return hyperparameters under which the agent never learns."""
        return self.replace(learning_rate=0.0)


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    params: Any
    opt_state: Any
    envs: rollouts.Environments
    key: jax.Array
    update: jax.Array
    """[] int32, updates done"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


class Network(nn.Module):
    """A policy and a value function."""

    num_actions: int
    hidden_size: int

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[Categorical, jax.Array]:
        """Return policy and values [...] at observations [..., size]."""
        actor, critic = (nn.tanh(nn.Dense(self.hidden_size)(obs)) for _ in range(2))
        return Categorical(nn.Dense(self.num_actions)(actor)), nn.Dense(1)(critic)[..., 0]


def difference(meta_params: Any, context: Any, target: jax.Array, value: jax.Array) -> jax.Array:
    """Return the advantage of an action: how much better it was than expected."""
    return target - value


def positive(meta_params: Any, context: Any, target: jax.Array, value: jax.Array) -> jax.Array:
    """Return the advantage of good actions, so that bad ones are ignored."""
    return jnp.maximum(target - value, 0.0)


def returns(rollout: Transition, next_value: jax.Array, gamma: jax.Array) -> jax.Array:
    """Return the discounted returns [T, N], with values where the rollout or a time limit cuts."""

    def step(after, inputs):
        reward, next_value, terminated, truncated = inputs
        after = jnp.where(truncated, next_value, after)
        after = reward + gamma * jnp.where(terminated, 0.0, after)
        return after, after

    inputs = rollout.reward, next_value, rollout.terminated, rollout.truncated
    return jax.lax.scan(step, next_value[-1], inputs, reverse=True)[1]


@dataclass(frozen=True)
class Reinforce:
    """The algorithm with its static parts bound; all methods are for one agent."""

    config: Config
    env: Any
    advantage_rule: Callable[..., jax.Array] = difference

    train = training.train

    @cached_property
    def network(self) -> Network:
        """The policy and the value function."""
        space = self.env.action_space(self.env.default_params)
        if not hasattr(space, "n"):
            raise ValueError("REINFORCE needs discrete actions")
        return Network(space.n, self.config.hidden_size)

    def init(self, key: jax.Array, hyperparams: Any, meta_params: Any, env_params: Any) -> State:
        """Return a new agent in newly reset environments."""
        network_key, reset_key, key = jax.random.split(key, 3)
        envs = rollouts.reset(self.env, env_params, reset_key, self.config.num_envs)
        params = self.network.init(network_key, envs.obs)
        opt_state = optax.adam(hyperparams.learning_rate).init(params)
        return State(params, opt_state, envs, key, jnp.int32(0))

    def update(
        self, state: State, hyperparams: Any, meta_params: Any, env_params: Any
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect a rollout [T, N], and take one gradient step on it."""
        key, *keys = jax.random.split(state.key, 3)
        context = training.context(self.config, state, hyperparams, state.update)

        def act(obs, memory):
            return self.network.apply(state.params, obs)[0], memory

        def loss(params):
            policy, value = self.network.apply(params, rollout.obs)
            rule = jax.vmap(jax.vmap(self.advantage_rule, (None, None, 0, 0)), (None, None, 0, 0))
            advantage = rule(meta_params, context, target, jax.lax.stop_gradient(value))
            policy_loss = -jnp.mean(advantage * policy.log_prob(rollout.action))
            value_loss = jnp.mean(jnp.square(value - target))
            return policy_loss + value_loss, {"policy_loss": policy_loss, "value_loss": value_loss}

        envs, rollout, sums = rollouts.collect(
            self.env, env_params, act, keys, state.envs, self.config.num_steps
        )
        _, next_value = self.network.apply(state.params, rollout.final_obs)
        target = returns(rollout, next_value, hyperparams.gamma)
        gradient, metrics = jax.grad(loss, has_aux=True)(state.params)
        adam = optax.adam(hyperparams.learning_rate)
        step, opt_state = adam.update(gradient, state.opt_state)
        params = optax.apply_updates(state.params, step)
        state = State(params, opt_state, envs, key, state.update + 1, state.num_updates)
        return state, sums, metrics

    def policy(self, state: State) -> Any:
        """Return the policy parameters."""
        return state.params

    def action_distribution(
        self, policy: Any, obs: jax.Array, memory: None = None
    ) -> tuple[Categorical, None]:
        """Return the distribution of actions at one observation; there is no memory."""
        return self.network.apply(policy, obs)[0], memory


SLOT = Slot(
    "advantage_rule", {"difference": difference, "positive": positive}, inputs=("target", "value")
)
LEARNER = LearnerEntry(Config, Hyperparams, Reinforce, slots=(SLOT,), observations="flat")
