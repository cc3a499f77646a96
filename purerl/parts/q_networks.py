"""Values of all actions, in DQN and PQN: networks, epsilon-greedy policies, and targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from purerl.fast import loops
from purerl.parts import networks, optimizers, returns
from purerl.parts.own_network import SAMPLES, OwnNetwork, module_of
from purerl.parts.policies import likeliest
from purerl.types import Context, Environment, Estimates, MetaParams, PyTree, Rollout


class ActionValues(NamedTuple):
    """The values of all actions."""

    values: jax.Array
    """[..., num_actions]."""

    def best(self) -> jax.Array:
        """Return the actions [...] int32 with the largest values, the first among equals."""
        return jnp.argmax(self.values, axis=-1).astype(jnp.int32)

    def max(self) -> jax.Array:
        """Return the largest values [...]."""
        return jnp.max(self.values, axis=-1)

    def of(self, action: jax.Array) -> jax.Array:
        """Return the values [...] of actions [...]."""
        is_it = jax.nn.one_hot(action, self.values.shape[-1], dtype=bool)
        # cheaper than a gather, backwards
        return jnp.sum(jnp.where(is_it, self.values, 0.0), axis=-1)

    def epsilon_greedy(self, key: jax.Array, epsilon: jax.Array) -> jax.Array:
        """Return the best actions [...] int32, or with probability `epsilon` random actions.

        The choice is independent for each action.
        """
        count = self.values.shape[-1]
        # One number decides both: below epsilon it is uniform, so it also selects the action.
        number = jax.random.uniform(key, self.values.shape[:-1])
        random = jnp.floor(number / jnp.maximum(epsilon, 1e-9) * count).astype(jnp.int32)
        random = jnp.minimum(random, count - 1)
        return jnp.where(number < epsilon, random, self.best())


class EpsilonGreedy(NamedTuple):
    """A policy that takes the best action, or with probability epsilon a random one."""

    values: ActionValues
    epsilon: jax.Array
    """[] probability of a random action"""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions [...] int32."""
        return self.values.epsilon_greedy(key, self.epsilon)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log-probabilities [...] of actions [...]."""
        greedy = jnp.where(action == self.values.best(), 1.0 - self.epsilon, 0.0)
        return jnp.log(greedy + self.epsilon / self.values.values.shape[-1])

    def mode(self, key: jax.Array) -> jax.Array:
        """Return the best actions [...] int32, ties broken at random."""
        return likeliest(self.values.values, key)


class Policy(NamedTuple):
    """Parameters for acting, which are saved with an agent."""

    params: PyTree
    epsilon: jax.Array
    """[] probability of a random action, unless acting is greedy"""


class ActsByValues:
    """Acting by the values of all actions, of learners whose state has `params` and `epsilon`."""

    network: Any

    def values(self, params: PyTree, obs: jax.Array) -> ActionValues:
        """Return the values of all actions at observations [..., *obs_shape]."""
        return self.network.apply(params, obs)

    def policy(self, state: Any) -> Policy:
        """Return the parameters for acting."""
        return Policy(state.params, state.epsilon)

    def action_distribution(
        self, policy: Policy, obs: jax.Array, memory: None = None
    ) -> tuple[EpsilonGreedy, None]:
        """Return the distribution of actions at one observation; there is no memory."""
        return EpsilonGreedy(self.values(policy.params, obs), policy.epsilon), None


class QNetwork(nn.Module):
    """The values of all actions; `dueling` splits them into a state's value and advantages.

    Dueling (Wang et al. 2016, equation 9): Q(s, a) = V(s) + A(s, a) - mean of A(s, .), with both
    heads on one torso.
    """

    obs_ndim: int
    num_actions: int
    hidden_sizes: Sequence[int]
    activation: str
    dueling: bool = False
    layer_norm: bool = False

    def setup(self) -> None:
        """Create the layers."""
        layers = self.hidden_sizes, self.activation, networks.LECUN_NORMAL, self.layer_norm
        self.torso = networks.Torso(self.obs_ndim, *layers)
        self.action_head = networks.dense(self.num_actions, networks.LECUN_NORMAL)
        if self.dueling:
            self.value_head = networks.dense(1, networks.LECUN_NORMAL)

    def __call__(self, obs: jax.Array) -> ActionValues:
        """Return the values of all actions at observations [..., *obs_shape]."""
        if not self.dueling:
            return ActionValues(networks.output(self.torso, self.action_head, obs))
        features = self.torso(obs)
        values = self.action_head(features)
        values = values - jnp.mean(values, axis=-1, keepdims=True) + self.value_head(features)
        return ActionValues(values)


@dataclass(frozen=True)
class OwnQNetwork(OwnNetwork):
    """A module that returns the values of all actions."""

    num_actions: int

    def __post_init__(self) -> None:
        if self.is_recurrent:
            raise self._error("has a memory (initial_memory), which this learner has not; PPO has")
        needed = f"must be the values [B, {self.num_actions}] of all actions"
        self._check("", self.outputs, needed, (SAMPLES, self.num_actions))

    def apply(self, params: PyTree, obs: jax.Array) -> ActionValues:
        """Return the values of all actions at observations [..., *obs_shape]."""
        shape, samples = self._seen(obs)
        values = self._apply(params, samples)
        return ActionValues(values.astype(jnp.float32).reshape(*shape, -1))


def q_network(env: Environment, config: Any, learner: str, **layers: Any) -> QNetwork | OwnQNetwork:
    """Build the network of action values that fits an environment's spaces, or the user's own.

    The learner's name is for the error, and `layers` are settings of `QNetwork`.

    Raises:
        ValueError: if the action space is not discrete.
        SettingError: if the user's network does not fit.
    """
    num_actions, ndim = networks.num_actions(env, learner), networks.obs_ndim(env)
    if config.network is None:
        sizes = config.hidden_sizes, config.activation
        return QNetwork(ndim, num_actions, *sizes, **layers)
    module = module_of(config.network, env.action_space(env.default_params))
    return OwnQNetwork(module, env, num_actions)


SCHEDULE = replace(
    optimizers.SCHEDULE,
    functions={"constant": optimizers.constant_schedule, "cosine": optimizers.cosine_schedule},
)
"""The slot without changes of PPO's own hyperparameters."""


def q_lambda(meta_params: MetaParams, context: Context, rollout: Rollout) -> Estimates:
    """Peng's Q(lambda) (Peng & Williams 1996), as in PQN (Gallici et al. 2024, equation 11).

        G_t = r_t + gamma * ((1 - lambda) * V'_t + lambda * (V'_t if end_t else G_{t+1}))

    In the terms of `purerl.parts.returns`. With values of states it would be GAE.
    """
    hyperparams, following = context.hyperparams, returns.bootstrap(rollout)

    def backward(later, inputs):
        reward_t, following_t, end_t = inputs
        later = jnp.where(end_t, following_t, later)
        later = following_t + hyperparams.gae_lambda * (later - following_t)
        target = reward_t + hyperparams.gamma * later
        return target, target

    inputs = rollout.reward, following, returns.ends(rollout)
    start = jnp.zeros_like(following[0])
    _, target = loops.scan(backward, start, inputs, unroll=returns.UNROLL, reverse=True)
    return Estimates(target - rollout.value, target)
