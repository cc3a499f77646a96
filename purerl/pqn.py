"""PQN: Q-learning in parallel environments (Gallici et al. 2024), one pure function for training.

    env, env_params = envs.make("CartPole-v1")
    train = make_train(Config(), env, value_loss=losses.huber)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

There is no replay memory and no target network. An update collects a rollout in all environments,
computes Q(lambda) targets with the network that collected it, and takes gradient steps on its
minibatches. Layer normalisation keeps the values bounded. The value loss is the whole learning
signal.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.fast.branches import cond, map_steps
from purerl.fast.loops import scan_gradient_steps
from purerl.parts import (
    exploration,
    losses,
    minibatches,
    networks,
    optimizers,
    q_networks,
    returns,
    rollouts,
    training,
)
from purerl.types import (
    Context,
    Environment,
    EnvParams,
    EpisodeSums,
    LearnerEntry,
    MakeOptimizer,
    MetaParams,
    PyTree,
    Rollout,
    Schedule,
    TargetEstimator,
    Transition,
    ValueLoss,
)


@dataclass(frozen=True)
class Config(training.BaseConfig):
    """Static settings: a change recompiles.

    The defaults, here and of `Hyperparams`, are the authors' for CartPole-v1
    (docs/reference/pqn.md has the differences).

    Raises:
        ValueError: if a batch cannot be divided into minibatches or no update fits.
    """

    num_envs: Annotated[int, Gt(0)] = 32
    num_steps: Annotated[int, Gt(0)] = 64
    update_epochs: Annotated[int, Interval(gt=0, le=1_000_000)] = 4
    """passes over each batch"""
    num_minibatches: Annotated[int, Gt(0)] = 16
    """minibatches, and gradient steps, of each pass"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (256, 256)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "relu"
    """activation function of the hidden layers"""
    layer_norm: bool = True
    """normalise each layer before its activation"""
    network: Any = None
    """a flax module of your own, or a function of the action space that returns one, in place of
    the network that the settings above describe (docs/how-to/network.md)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        networks.check_config(self)
        minibatches.check(self, self.num_minibatches, whole_rollouts=False)


class Hyperparams(training.BaseHyperparams):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    learning_rate: Annotated[float, Gt(0)] = 1e-4
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 0.0
    max_grad_norm: Annotated[float, Gt(0)] = 10.0
    adam_epsilon: Annotated[float, Gt(0)] = 1e-8
    epsilon_start: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """probability of a random action at the start"""
    epsilon_end: Annotated[float, Interval(ge=0, le=1)] | None = 0.2
    """probability of a random action after epsilon_decay_steps; null: always epsilon_start"""
    epsilon_decay_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until epsilon_end is reached; by default a fifth of total_timesteps"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor"""
    gae_lambda: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """trace decay of the targets: lambda of Q(lambda)"""
    return_steps: Annotated[float, Ge(1)] = 5.0
    """rewards in the returns of n_step"""
    reward_scale: Annotated[float, Gt(0)] = 0.1
    """factor on the rewards in targets; reported returns are unscaled"""

    random_play = exploration.random_play


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    params: PyTree
    opt_state: PyTree
    update: jax.Array
    """[] int32, updates done"""
    key: jax.Array
    envs: rollouts.Environments
    epsilon: jax.Array
    """[] probability of a random action in the last rollout"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


class Batch(NamedTuple):
    """Transitions as the value loss sees them, flattened over time and environments: [B, ...]."""

    obs: jax.Array
    action: jax.Array
    target: jax.Array
    old_prediction: jax.Array
    """[B] values of the actions by the network that collected the data"""


@dataclass(frozen=True)
class PQN(q_networks.ActsByValues):
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not discrete, or a network does not fit.
    """

    config: Config
    env: Environment
    value_loss: ValueLoss = losses.squared
    make_optimizer: MakeOptimizer = optimizers.radam
    schedule: Schedule = optimizers.constant_schedule
    targets: TargetEstimator = q_networks.q_lambda

    train = training.train

    def __post_init__(self) -> None:
        _ = self.network  # which must fit the environment

    @cached_property
    def network(self) -> Any:
        """Values of all actions: `(params, obs) -> ActionValues`."""
        return q_networks.q_network(self.env, self.config, "PQN", layer_norm=self.config.layer_norm)

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
        params = self.network.init(network_key, envs.obs)
        state = State(
            params=params,
            opt_state=(),
            update=jnp.int32(0),
            key=key,
            envs=envs,
            epsilon=jnp.asarray(hyperparams.epsilon_start, jnp.float32),
        )
        optimizer = self.make_optimizer(meta_params, self.context(state, hyperparams))
        return state.replace(opt_state=optimizer.init(params))

    def collect(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[State, Transition, EpisodeSums]:
        """Act for `num_steps` steps; return transitions [T, N, ...] and the sums over episodes."""
        config = self.config
        frames = self.context(state, hyperparams).frames
        horizon = exploration.total_frames(config, state) / 5
        epsilon = exploration.epsilon(hyperparams, frames, horizon)

        def act(obs, memory):
            return q_networks.EpsilonGreedy(self.values(state.params, obs), epsilon), memory

        action_key, env_key, key = jax.random.split(state.key, 3)
        keys, steps = (action_key, env_key), config.num_steps
        envs, transitions, sums = rollouts.collect(
            self.env, env_params, act, keys, state.envs, steps, keep=lambda policy: policy.values
        )
        return state.replace(key=key, envs=envs, epsilon=epsilon), transitions, sums

    def make_batch(
        self, state: State, transitions: Transition, context: Context, meta_params: MetaParams
    ) -> Batch:
        """Compute the targets of a rollout [T, N, ...], by the slot `targets`.

        The values are those with which the network acted.
        """
        obs, action, values = transitions.obs, transitions.action, transitions.kept
        rollout = Rollout(
            context.hyperparams.reward_scale * transitions.reward,
            values.of(action),
            self.next_values(state.params, values.max(), transitions),
            transitions.terminated,
            transitions.truncated,
            ratio=jnp.where(action == values.best(), jnp.exp(-transitions.log_prob), 0.0),
        )
        target = returns.estimates(self.targets, meta_params, context, rollout).target
        batch = Batch(obs, action, target, rollout.value)
        return jax.tree.map(lambda x: x.reshape(self.config.batch_size, *x.shape[2:]), batch)

    def next_values(self, params: PyTree, value: jax.Array, transitions: Transition) -> jax.Array:
        """Return max_a Q(s', a) [T, N] of the states before any reset, given max_a Q(s, a) [T, N].

        Most s' are the next step's s. The network evaluates steps with a truncation, and the last.
        """

        def value_where_needed(step):
            final_obs, needed = step
            evaluate = lambda obs: self.values(params, obs).max()  # noqa: E731
            skip = lambda obs: jnp.zeros(needed.shape, value.dtype)  # noqa: E731
            return cond(jnp.any(needed), evaluate, skip, final_obs)

        needed = transitions.truncated.at[-1].set(True)
        final = map_steps(value_where_needed, (transitions.final_obs, needed))
        following = jnp.concatenate([value[1:], value[-1:]])
        return jnp.where(needed, final, following)  # a terminal state's has no meaning

    def loss(
        self, params: PyTree, batch: Batch, context: Context, meta_params: MetaParams
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of a (mini)batch [B, ...], and diagnostics.

        The slot `value_loss` is called here, on every sample.
        """
        prediction = self.values(params, batch.obs).of(batch.action)
        value_loss = jax.vmap(self.value_loss, in_axes=(None, None, 0, 0, 0))(
            meta_params, context, prediction, batch.target, batch.old_prediction
        ).mean()
        metrics = {
            "value_loss": value_loss,
            "value_error": jnp.sqrt(jnp.mean(jnp.square(prediction - batch.target))),
            "q_value": jnp.mean(prediction),
        }
        return value_loss, metrics

    def learn(
        self, state: State, batch: Batch, hyperparams: Hyperparams, meta_params: MetaParams
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take `update_epochs x num_minibatches` gradient steps on a batch [B, ...].

        Metrics are means over the steps.
        """
        context = self.context(state, hyperparams)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)

        def gradient_step(params, opt_state, inputs):
            rows, place = inputs
            minibatch = jax.tree.map(lambda x: x[rows], batch)
            here = context.replace(**place, observations=minibatch.obs, network=self.network)
            grads, metrics = gradient(params, minibatch, here, meta_params)
            updates, opt_state = optimizer.update(grads, opt_state, params, context=here)
            return updates, opt_state, metrics

        shuffle_key, key, slots_key = jax.random.split(state.key, 3)
        steps = minibatches.steps(self.config, shuffle_key, slots_key, length=1)
        params, opt_state, metrics = scan_gradient_steps(
            gradient_step, state.params, state.opt_state, steps
        )
        state = state.replace(params=params, opt_state=opt_state, key=key, update=state.update + 1)
        return state, jax.tree.map(jnp.mean, metrics)

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect one batch of experience and learn from it."""
        context = optimizers.scheduled(self.schedule, meta_params, self.context(state, hyperparams))
        state, transitions, sums = self.collect(state, context.hyperparams, env_params)
        batch = self.make_batch(state, transitions, context, meta_params)
        state, metrics = self.learn(state, batch, context.hyperparams, meta_params)
        return state, sums, {**metrics, "epsilon": state.epsilon}

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """Return the context of the slots in this update."""
        config = self.config
        return training.context(config, state, hyperparams, state.update).replace(
            num_epochs=config.update_epochs, num_minibatches=config.num_minibatches
        )

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams, meta_params: Any = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions [B] and targets [B] of a new rollout, as the value loss sees them."""
        context = self.context(state, hyperparams)
        state, transitions, _ = self.collect(state, hyperparams, env_params)
        batch = self.make_batch(state, transitions, context, meta_params)
        return batch.old_prediction, batch.target


SLOTS = (
    losses.VALUE_LOSS.comparing("squared", "huber", "expectile"),
    replace(
        optimizers.MAKE_OPTIMIZER.comparing("radam", "adam", "rmsprop"),
        functions={"radam": optimizers.radam} | dict(optimizers.MAKE_OPTIMIZER.functions),
    ),
    q_networks.SCHEDULE,
    replace(
        returns.TARGETS,
        functions={"q_lambda": q_networks.q_lambda} | dict(returns.TARGETS.functions),
        contenders=("q_lambda", "n_step"),
    ),
)
"""The functions that can be replaced."""

LEARNER = LearnerEntry(Config, Hyperparams, PQN, SLOTS)
make_train = LEARNER.make_train
