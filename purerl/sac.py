"""Soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905), for continuous actions with bounds.

    env, env_params = envs.make("Pendulum-v1")
    train = make_train(Config(), env, value_loss=losses.huber)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

A policy, two critics and a temperature learn from a replay memory, in phases like DQN's. The
critics' loss fills the slot `value_loss`. Equation numbers are those of the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.parts import losses, networks, optimizers, replay, rollouts, training
from purerl.parts.policies import LOG_STD, SquashedGaussian, log_slope_of_tanh
from purerl.types import (
    Context,
    Environment,
    EnvParams,
    EpisodeSums,
    LearnerEntry,
    MakeOptimizer,
    MetaParams,
    Transition,
    ValueLoss,
)


@dataclass(frozen=True)
class Config(replay.ReplayConfig):
    """Static settings: a change recompiles.

    Raises:
        ValueError: if the counts do not fit together.
    """

    total_timesteps: Annotated[int, Gt(0)] = 20_000
    num_envs: Annotated[int, Gt(0)] = 4
    num_steps: Annotated[int, Gt(0)] = 100
    train_interval: Annotated[int, Gt(0)] = 4
    buffer_size: Annotated[int, Gt(0)] = 20_000
    learning_starts: Annotated[int, Gt(0)] = 1_000
    gradient_steps: Annotated[int, Interval(gt=0, le=1_000_000)] = 4
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (64, 64)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "relu"
    """activation function of the hidden layers"""


class Hyperparams(training.BaseHyperparams):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    learning_rate: Annotated[float, Ge(0)] = 1e-3
    max_grad_norm: Annotated[float, Gt(0)] = float("inf")
    adam_epsilon: Annotated[float, Gt(0)] = 1e-8
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor"""
    tau: Annotated[float, Interval(ge=0, le=1)] = 0.01
    """share of the critics in their average, by which targets are computed"""
    entropy_per_action: float = -1.0
    """entropy that the temperature is tuned for, per dimension of an action"""


class Network(nn.Module):
    """A policy and two critics."""

    action_size: int
    obs_ndim: int
    hidden_sizes: Sequence[int]
    activation: str

    def setup(self) -> None:
        """Create the layers."""
        layers = self.hidden_sizes, self.activation, networks.LECUN_NORMAL
        self.actor_torso = networks.Torso(self.obs_ndim, *layers)
        self.policy_head = nn.Dense(2 * self.action_size)
        self.critics = [nn.Sequential([networks.Torso(1, *layers), nn.Dense(1)]) for _ in range(2)]

    def policy(self, obs: jax.Array) -> SquashedGaussian:
        """Return the distribution of actions at observations [..., *obs_shape]."""
        mean, log_std = jnp.split(self.policy_head(self.actor_torso(obs)), 2, axis=-1)
        return SquashedGaussian(mean, jnp.clip(log_std, *LOG_STD))

    def values(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Return both critics' values [2, ...] of actions [..., action_dim] in (-1, 1)."""
        inputs = jnp.concatenate([obs.reshape(*action.shape[:-1], -1), action], axis=-1)
        return jnp.stack([critic(inputs).squeeze(-1) for critic in self.critics])

    def __call__(self, obs: jax.Array) -> jax.Array:
        """Use every layer, to initialise it."""
        return self.values(obs, jnp.tanh(self.policy(obs).mode()))


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    params: Any
    """parameters of the network, and the logarithm of the temperature"""
    target_params: Any
    """averaged parameters of the network"""
    opt_state: Any
    phase: jax.Array
    """[] int32, phases whose steps are stored; a phase is `train_interval` environment steps"""
    key: jax.Array
    envs: rollouts.Environments
    ring: Transition
    """[C, ...] the replay memory"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


class Batch(NamedTuple):
    """A minibatch as the value loss sees it: [B, ...]."""

    obs: jax.Array
    action: jax.Array
    """[B, action_dim] in (-1, 1)"""
    target: jax.Array
    old_prediction: jax.Array
    """[2, B] values of the averaged critics"""


METRICS = "value_loss", "value_error", "q_value", "entropy", "temperature"


@dataclass(frozen=True)
class SAC:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not a vector with bounds, or its observations
            do not fit `store_observations`.
    """

    config: Config
    env: Environment
    value_loss: ValueLoss = losses.squared
    make_optimizer: MakeOptimizer = optimizers.adam

    train = training.train

    def __post_init__(self) -> None:
        space = self.env.action_space(self.env.default_params)
        shape = getattr(space, "shape", ())
        if hasattr(space, "n") or len(shape) != 1:
            raise ValueError(f"{self.env.name}: SAC needs continuous actions, a vector")
        if not jnp.isfinite(jnp.array([space.low, space.high])).all():
            raise ValueError(f"{self.env.name}: SAC needs actions with bounds")
        replay.check_storage(self.env, self.config.store_observations)

    @cached_property
    def network(self) -> Any:
        """The policy and the critics, see `Network`."""
        (action_size,) = self.env.action_space(self.env.default_params).shape
        layers = self.config.hidden_sizes, self.config.activation
        return Network(action_size, networks.obs_ndim(self.env), *layers)

    def init(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> State:
        """Return a new agent in newly reset environments."""
        config = self.config
        network_key, reset_key, key = jax.random.split(key, 3)
        envs = rollouts.reset(self.env, env_params, reset_key, config.num_envs)
        network = self.network.init(network_key, envs.obs)
        params = {"network": network, "log_temperature": jnp.float32(0.0)}
        context = Context(hyperparams, num_updates=config.num_updates)
        action = jnp.zeros(self.network.action_size)
        return State(
            params=params,
            target_params=network,
            opt_state=self.make_optimizer(meta_params, context).init(params),
            phase=jnp.int32(0),
            key=key,
            envs=envs,
            ring=config.layout.empty(envs.obs[0], config.store_observations, action=action),
        )

    def collect(
        self,
        state: State,
        sums: EpisodeSums,
        key: jax.Array,
        hyperparams: Hyperparams,
        env_params: EnvParams,
    ) -> tuple[State, EpisodeSums]:
        """Act for the environment steps of a phase, and store them in the replay memory."""
        layout, space = self.config.layout, self.env.action_space(env_params)

        def act(key, obs):
            policy = self.network.apply(state.params["network"], obs, method="policy")
            number = policy.sample(key)
            return jnp.tanh(number), policy.bounded(number, space)

        envs, sums, steps = replay.collect(self.env, env_params, act, key, state.envs, sums, layout)
        ring = layout.write(state.ring, steps, state.phase)
        return state.replace(phase=state.phase + 1, envs=envs, ring=ring), sums

    def make_batch(self, state: State, key: jax.Array, hyperparams: Hyperparams) -> Batch:
        """Draw a minibatch [B, ...] and compute its targets (equation 3).

        With several steps (`n_step`), only the last one counts the entropy.
        """
        config, layout = self.config, self.config.layout
        row_key, action_key = jax.random.split(key)
        rows = layout.draw_uniformly(row_key, state.phase, config.batch_size)
        drawn = layout.read(state.ring, rows, hyperparams.gamma)
        action, log_prob = self.sample(state.params["network"], drawn.final_obs, action_key)
        values = self.values(state.target_params, drawn.final_obs, action).min(axis=0)
        temperature = jnp.exp(state.params["log_temperature"])
        soft_value = values - temperature * log_prob
        target = drawn.reward + jnp.where(drawn.discount > 0, drawn.discount * soft_value, 0.0)
        old_prediction = self.values(state.target_params, drawn.obs, drawn.action)
        return Batch(drawn.obs, drawn.action, target, old_prediction)

    def loss(
        self, params: Any, batch: Batch, key: jax.Array, context: Context, meta_params: MetaParams
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The sum of the losses of critics, policy and temperature (equations 5, 7 and 18).

        The slot `value_loss` is called here, on every sample and for both critics.
        """
        frozen = jax.lax.stop_gradient(params)
        prediction = self.values(params["network"], batch.obs, batch.action)
        one_critic = jax.vmap(self.value_loss, in_axes=(None, None, 0, 0, 0))
        both_critics = jax.vmap(one_critic, in_axes=(None, None, 0, None, 0))
        value_losses = both_critics(
            meta_params, context, prediction, batch.target, batch.old_prediction
        )
        value_loss = value_losses.mean(axis=1).sum()

        action, log_prob = self.sample(params["network"], batch.obs, key)
        value = self.values(frozen["network"], batch.obs, action).min(axis=0)
        temperature = jnp.exp(frozen["log_temperature"])
        policy_loss = jnp.mean(temperature * log_prob - value)

        entropy = -jnp.mean(jax.lax.stop_gradient(log_prob))
        wanted = context.hyperparams.entropy_per_action * self.network.action_size
        temperature_loss = params["log_temperature"] * (entropy - wanted)
        error = jnp.sqrt(jnp.mean(jnp.square(prediction - batch.target[None])))
        metrics = value_loss, error, jnp.mean(prediction), entropy, temperature
        total = value_loss + policy_loss + temperature_loss
        return total, dict(zip(METRICS, metrics, strict=True))

    def learn(
        self, state: State, key: jax.Array, hyperparams: Hyperparams, meta_params: MetaParams
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take `gradient_steps`; metrics are means over the steps."""
        config, tau = self.config, hyperparams.tau
        # As of the start of the phase, whose steps `collect` has stored already.
        context = self.context(state.replace(phase=state.phase - 1), hyperparams)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)

        def gradient_step(state, inputs):
            step, batch_key, loss_key, slots_key = inputs
            batch = self.make_batch(state, batch_key, hyperparams)
            here = context.replace(minibatch=step / config.gradient_steps, key=slots_key)
            grads, metrics = gradient(state.params, batch, loss_key, here, meta_params)
            updates, opt_state = optimizer.update(
                grads, state.opt_state, state.params, context=here
            )
            params = optax.apply_updates(state.params, updates)
            average = optax.incremental_update(params["network"], state.target_params, tau)
            state = state.replace(params=params, opt_state=opt_state, target_params=average)
            return state, metrics

        count = config.gradient_steps
        inputs = jnp.arange(count), *jax.random.split(key, (3, count))
        state, metrics = jax.lax.scan(gradient_step, state, inputs)
        return state, jax.tree.map(jnp.mean, metrics)

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Go through the phases of `num_steps` steps: collect, learn, collect, learn, ..."""
        return replay.run_phases(self, METRICS, state, hyperparams, meta_params, env_params)

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """Return the context of the slots after the state's phases."""
        count = self.config.phases_per_update
        return training.context(self.config, state, hyperparams, state.phase, phases=count)

    def sample(self, params: Any, obs: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Draw actions [B, action_dim] in (-1, 1) with their log-densities [B]."""
        policy = self.network.apply(params, obs, method="policy")
        number = policy.sample(key)
        log_slope = jnp.sum(log_slope_of_tanh(number), axis=-1)
        return jnp.tanh(number), policy.log_prob(number) - log_slope

    def values(self, params: Any, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Return both critics' values [2, B]."""
        return self.network.apply(params, obs, action, method="values")

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions [B] and targets [B] of a minibatch, as the value loss sees them."""
        batch = self.make_batch(state, state.key, hyperparams)
        return self.values(state.params["network"], batch.obs, batch.action)[0], batch.target

    def policy(self, state: State) -> Any:
        """Return the policy parameters."""
        return state.params["network"]

    def action_distribution(
        self, policy: Any, obs: jax.Array, memory: None = None
    ) -> tuple[SquashedGaussian, None]:
        """Return the distribution of actions at one observation; there is no memory."""
        return self.network.apply(policy, obs, method="policy"), None


SLOTS = (
    losses.VALUE_LOSS.comparing("squared", "huber"),
    optimizers.MAKE_OPTIMIZER.comparing("adam", "momentum", "rmsprop"),
)
"""The functions that can be replaced."""

LEARNER = LearnerEntry(Config, Hyperparams, SAC, SLOTS)
make_train = LEARNER.make_train
