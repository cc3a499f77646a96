"""Deep Q-learning (Mnih et al. 2015), one pure function from key to trained agent.

    env, env_params = envs.make("CartPole-v1")
    train = make_train(Config(), env, value_loss=losses.huber)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

An update, one point of the learning curve, consists of phases: collect `train_interval` environment
steps, then learn from the replay memory. Everything that depends on time depends on the number of
phases, which vmapped agents share.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Gt, Interval, MaxLen
from flax import struct

from purerl.fast.branches import either
from purerl.parts import (
    exploration,
    losses,
    networks,
    optimizers,
    q_networks,
    replay,
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
    Schedule,
    Transition,
    ValueLoss,
)


@dataclass(frozen=True)
class Config(replay.ReplayConfig):
    """Static settings: a change recompiles.

    The defaults, here and of `Hyperparams`, equal PureJaxRL, except for gradient clipping
    (docs/reference/dqn.md).

    Raises:
        ValueError: if the counts do not fit together.
    """

    num_envs: Annotated[int, Gt(0)] = 10
    num_steps: Annotated[int, Gt(0)] = 100
    """steps in every environment of one update, that is of one point of the learning curve"""
    replay: Literal["uniform", "prioritized"] = "uniform"
    """draw transitions with equal probability, or by their last error"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (120, 84)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "relu"
    """activation function of the hidden layers"""
    dueling: bool = False
    """add a state's value and the advantages of the actions"""
    network: Any = None
    """a flax module of your own, or a function of the action space that returns one, in place of
    the network that the settings above describe (docs/how-to/network.md)"""
    target_update: Literal["hard", "polyak"] = "hard"
    """copy the network to the target network from time to time, or average it at every step"""
    target_interval: Annotated[int, Gt(0)] = 500
    """environment steps between two hard updates, rounded up to a multiple of train_interval"""
    double: bool = False
    """choose the next action by the online network, and value it by the target network"""

    def __post_init__(self) -> None:
        super().__post_init__()
        networks.check_config(self)


class Hyperparams(training.BaseHyperparams):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    max_grad_norm: Annotated[float, Gt(0)] = 10.0
    adam_epsilon: Annotated[float, Gt(0)] = 1e-8
    rmsprop_decay: Annotated[float, Interval(ge=0, lt=1)] = 0.95
    rmsprop_epsilon: Annotated[float, Gt(0)] = 1e-2
    epsilon_start: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """probability of a random action at the start"""
    epsilon_end: Annotated[float, Interval(ge=0, le=1)] | None = 0.05
    """probability of a random action after epsilon_decay_steps; null: always epsilon_start"""
    epsilon_decay_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until epsilon_end is reached; by default half of total_timesteps"""
    priority_exponent: Annotated[float, Interval(ge=0, le=1)] = 0.6
    """prioritized replay: 0 draws uniformly, 1 in proportion to the error"""
    importance_exponent: Annotated[float, Interval(ge=0, le=1)] = 0.4
    """prioritized replay: share of the bias that is corrected at the start of the training, which
    increases linearly to all of it at the end"""
    priority_epsilon: Annotated[float, Gt(0)] = 1e-6
    """prioritized replay: added to the error, so that every transition can be drawn"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor"""
    tau: Annotated[float, Interval(ge=0, le=1)] = 0.005
    """share of the network in the target network's average, with target_update polyak"""

    random_play = exploration.random_play


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    params: PyTree
    target_params: Any
    """parameters of the target network"""
    opt_state: PyTree
    phase: jax.Array
    """[] int32, phases whose steps are stored; a phase is `train_interval` environment steps"""
    key: jax.Array
    envs: rollouts.Environments
    ring: Transition
    """[C, ...] the replay memory"""
    priorities: replay.Priorities | None
    """None for uniform replay"""
    epsilon: jax.Array
    """[] probability of a random action in the last phase"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


METRICS = "value_loss", "value_error", "q_value"


class Batch(NamedTuple):
    """A minibatch as the value loss sees it: [B, ...]."""

    obs: jax.Array
    action: jax.Array
    target: jax.Array
    old_prediction: jax.Array
    """the target network's value of the action"""
    weight: jax.Array
    """importance of each sample, at most 1"""


@dataclass(frozen=True)
class DQN(q_networks.ActsByValues):
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not discrete, its observations do not fit
            `store_observations`, or a network does not fit.
    """

    config: Config
    env: Environment
    value_loss: ValueLoss = losses.squared
    make_optimizer: MakeOptimizer = optimizers.adam
    schedule: Schedule = optimizers.constant_schedule

    train = training.train

    def __post_init__(self) -> None:
        _ = self.network  # which must fit the environment
        replay.check_storage(self.env, self.config.store_observations)

    @cached_property
    def network(self) -> Any:
        """Values of all actions: `(params, obs) -> ActionValues`."""
        return q_networks.q_network(self.env, self.config, "DQN", dueling=self.config.dueling)

    def init(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> State:
        """Return a new agent in newly reset environments, with an empty replay memory."""
        config, layout = self.config, self.config.layout
        network_key, reset_key, key = jax.random.split(key, 3)
        envs = rollouts.reset(self.env, env_params, reset_key, config.num_envs)
        params = self.network.init(network_key, envs.obs)
        context = Context(hyperparams, num_updates=config.num_updates)
        prioritized = config.replay == "prioritized"
        return State(
            params=params,
            target_params=params,
            opt_state=self.make_optimizer(meta_params, context).init(params),
            phase=jnp.int32(0),
            key=key,
            envs=envs,
            ring=layout.empty(envs.obs[0], config.store_observations),
            priorities=replay.Priorities.empty(layout.capacity) if prioritized else None,
            epsilon=jnp.asarray(hyperparams.epsilon_start, jnp.float32),
        )

    def collect(
        self,
        state: State,
        sums: EpisodeSums,
        key: jax.Array,
        hyperparams: Hyperparams,
        env_params: EnvParams,
    ) -> tuple[State, EpisodeSums]:
        """Act for the environment steps of a phase, and store them in the replay memory.

        Finished episodes are added to the sums, each [N].
        """
        config, layout = self.config, self.config.layout
        frames = self.context(state, hyperparams).frames
        horizon = exploration.total_frames(config, state) / 2
        epsilon = exploration.epsilon(hyperparams, frames, horizon)

        def act(key, obs):
            action = self.values(state.params, obs).epsilon_greedy(key, epsilon)
            return action, action

        envs, sums, steps = replay.collect(self.env, env_params, act, key, state.envs, sums, layout)
        state = state.replace(
            phase=state.phase + 1,
            envs=envs,
            ring=layout.write(state.ring, steps, state.phase),
            priorities=layout.admit(state.priorities, state.phase),
            epsilon=epsilon,
        )
        return state, sums

    def make_batch(self, state: State, key: jax.Array, context: Context) -> tuple[Batch, jax.Array]:
        """Draw a minibatch [B, ...] and compute its targets; also return its rows [B]."""
        config, hyperparams = self.config, context.hyperparams
        exponent = 1.0 + (hyperparams.importance_exponent - 1.0) * (1.0 - context.progress)
        rows, weight = config.layout.draw(
            key, state.phase, state.priorities, config.batch_size, exponent=exponent
        )
        drawn = config.layout.read(state.ring, rows, hyperparams.gamma)
        next_values = self.values(state.target_params, drawn.final_obs)
        chooser = self.values(state.params, drawn.final_obs)
        chosen = (chooser if config.double else next_values).best()
        bootstrap = jnp.where(drawn.discount > 0.0, drawn.discount * next_values.of(chosen), 0.0)
        target = drawn.reward + bootstrap
        old_prediction = self.values(state.target_params, drawn.obs).of(drawn.action)
        return Batch(drawn.obs, drawn.action, target, old_prediction, weight), rows

    def loss(
        self, params: PyTree, batch: Batch, context: Context, meta_params: MetaParams
    ) -> tuple[jax.Array, tuple[jax.Array, dict[str, jax.Array]]]:
        """The loss of a minibatch [B, ...]; errors [B] and diagnostics.

        The slot `value_loss` is called here, on every sample.
        """
        prediction = self.values(params, batch.obs).of(batch.action)
        value_losses = jax.vmap(self.value_loss, in_axes=(None, None, 0, 0, 0))(
            meta_params, context, prediction, batch.target, batch.old_prediction
        )
        total, error = jnp.mean(batch.weight * value_losses), prediction - batch.target
        metrics = total, jnp.sqrt(jnp.mean(jnp.square(error))), jnp.mean(prediction)
        return total, (error, dict(zip(METRICS, metrics, strict=True)))

    def learn(
        self, state: State, key: jax.Array, hyperparams: Hyperparams, meta_params: MetaParams
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take `gradient_steps`, then update the target network if it is due.

        Metrics are means over the steps.
        """
        config = self.config
        # As of the start of the phase, whose steps `collect` has stored already.
        context = self.context(state.replace(phase=state.phase - 1), hyperparams)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)

        def gradient_step(state, inputs):
            step, key, slots_key = inputs
            batch, rows = self.make_batch(state, key, context)
            params, opt_state = state.params, state.opt_state
            here = context.replace(
                minibatch=step / config.gradient_steps,
                key=slots_key,
                observations=batch.obs,
                network=self.network,
            )
            grads, (error, metrics) = gradient(params, batch, here, meta_params)
            updates, opt_state = optimizer.update(grads, opt_state, params, context=here)
            params = optax.apply_updates(params, updates)
            exponents = hyperparams.priority_exponent, hyperparams.priority_epsilon
            priorities = replay.with_errors(state.priorities, rows, error, *exponents)
            state = state.replace(params=params, opt_state=opt_state, priorities=priorities)
            if config.target_update == "polyak":
                average = optax.incremental_update(params, state.target_params, hyperparams.tau)
                state = state.replace(target_params=average)
            return state, metrics

        count = config.gradient_steps
        inputs = jnp.arange(count), *jax.random.split(key, (2, count))
        state, metrics = jax.lax.scan(gradient_step, state, inputs)
        if config.target_update == "hard":
            due = state.phase % -(-config.target_interval // config.train_interval) == 0
            state = state.replace(target_params=either(due, state.params, state.target_params))
        return state, jax.tree.map(jnp.mean, metrics)

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Go through the phases of `num_steps` steps: collect, learn, collect, learn, ..."""
        context = optimizers.scheduled(self.schedule, meta_params, self.context(state, hyperparams))
        settings = context.hyperparams, meta_params, env_params
        state, sums, metrics = replay.run_phases(self, METRICS, state, *settings)
        return state, sums, {**metrics, "epsilon": state.epsilon}

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """Return the context of the slots after the state's phases."""
        count = self.config.phases_per_update
        return training.context(self.config, state, hyperparams, state.phase, phases=count)

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions [B] and targets [B] of a minibatch, as the value loss sees them."""
        batch, _ = self.make_batch(state, state.key, self.context(state, hyperparams))
        return self.values(state.params, batch.obs).of(batch.action), batch.target


SLOTS = (
    losses.VALUE_LOSS.comparing("squared", "huber"),
    optimizers.MAKE_OPTIMIZER.comparing("adam", "momentum", "rmsprop"),
    q_networks.SCHEDULE,
)
"""The functions that can be replaced."""

LEARNER = LearnerEntry(Config, Hyperparams, DQN, SLOTS)
make_train = LEARNER.make_train
