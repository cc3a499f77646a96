"""Deep Q-learning (Mnih et al. 2015), one pure function from key to trained agent.

    train = make_train(config, env, value_loss=losses.huber)
    result = train(key, hyperparams, meta_params, env_params)      # vmap over any of the four

Top to bottom: settings, what is carried along, then the algorithm in the order in which data flows:
`init`, `collect`, `make_batch`, `learn`, `update`, `train`. An update, one point of the learning
curve, consists of phases: collect `train_interval` environment steps, then learn from the replay
memory. All that depends on time depends on the number of phases, which vmapped agents share.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.fast.branches import cond
from purerl.fast.threefry import with_fast_draws
from purerl.parts import (
    episodes,
    exploration,
    losses,
    masks,
    networks,
    optimizers,
    parameters,
    policies,
    schedules,
)
from purerl.parts.replay import Layout, Priorities, Steps, set_priorities
from purerl.types import (
    Context,
    EnvParams,
    EpisodeSums,
    MakeOptimizer,
    MetaParams,
    Schedule,
    Train,
    TrainResult,
    ValueLoss,
)


@dataclass(frozen=True)
class Config:
    """What fixes shapes and counts. Static: a change recompiles.

    The defaults, here and of `Hyperparams`, are PureJaxRL's but for clipping
    (docs/reference/dqn.md).

    Raises:
        ValueError: if the counts do not divide each other, or if a minibatch would have to be
            drawn from fewer transitions than it holds.
    """

    total_timesteps: Annotated[int, Gt(0)] = 500_000
    """environment steps of one agent, rounded down to whole updates"""
    num_envs: Annotated[int, Gt(0)] = 10
    """parallel environments of one agent"""
    num_steps: Annotated[int, Gt(0)] = 100
    """steps in every environment of one update: of one point of the learning curve"""
    train_interval: Annotated[int, Gt(0)] = 10
    """environment steps, of all environments together, between two learning phases"""
    gradient_steps: Annotated[int, Interval(gt=0, le=1_000_000)] = 1
    """minibatches of a learning phase"""
    batch_size: Annotated[int, Gt(0)] = 128
    """transitions of a minibatch"""
    buffer_size: Annotated[int, Gt(0)] = 10_000
    """transitions that the replay memory holds, rounded down to a multiple of train_interval"""
    learning_starts: Annotated[int, Gt(0)] = 10_000
    """environment steps before the first learning phase"""
    target_update: Literal["hard", "polyak"] = "hard"
    """copy the network to the target network now and then, or follow it slowly at every step"""
    target_interval: Annotated[int, Gt(0)] = 500
    """environment steps between two hard updates, rounded up to a multiple of train_interval"""
    double: bool = False
    """the online network chooses the next action, the target network values it"""
    dueling: bool = False
    """the network adds a state's value and the actions' advantages"""
    n_step: Annotated[int, Gt(0)] = 1
    """rewards in a target before it is bootstrapped"""
    replay: Literal["uniform", "prioritized"] = "uniform"
    """draw transitions with equal probability, or by their last error"""
    store_observations: Literal["float32", "float16", "uint8"] = "float32"
    """how the replay memory keeps observations; uint8 is exact for whole numbers up to 255"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (120, 84)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "relu"
    """of the hidden layers"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if min(self.num_envs, self.num_steps, self.train_interval, self.n_step) < 1:
            return  # the ranges of single fields are checked elsewhere
        interval, waiting = self.train_interval, self.layout.waiting_rows
        frames = f"num_envs x num_steps = {self.frames_per_update}"
        batch = f"batch_size = {self.batch_size}"
        if waiting:
            batch += f" and (n_step - 1) x num_envs = {waiting} that wait for their successors"
        needed = self.batch_size + waiting
        checks = {
            f"train_interval = {interval} must be a multiple of num_envs = {self.num_envs}": (
                interval % self.num_envs == 0
            ),
            f"{frames} must be a multiple of train_interval = {interval}": (
                self.frames_per_update % interval == 0
            ),
            f"total_timesteps = {self.total_timesteps} must be at least one update, {frames}": (
                self.num_updates > 0
            ),
            f"buffer_size = {self.buffer_size}, in multiples of train_interval = {interval}, "
            f"must hold at least {batch}": self.layout.capacity >= max(needed, interval + waiting),
            f"learning_starts = {self.learning_starts} must be at least {batch}": (
                self.learning_starts >= needed
            ),
            f"learning_starts = {self.learning_starts} is beyond total_timesteps = "
            f"{self.total_timesteps}": self.learning_starts <= self.total_timesteps,
        }
        for complaint, holds in checks.items():
            if not holds:
                raise ValueError(complaint)

    @property
    def frames_per_update(self) -> int:
        """Environment steps of one update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates of a whole training run."""
        return self.total_timesteps // self.frames_per_update

    @property
    def layout(self) -> Layout:
        """How the replay memory is filled: a phase at a time."""
        writes = self.buffer_size // self.train_interval
        return Layout(writes, self.train_interval, self.num_envs, self.n_step)


class Hyperparams(struct.PyTreeNode):
    """Scalars that training reads. Traced: a change never recompiles, and each can be vmapped."""

    learning_rate: Annotated[float, Ge(0)] = 2.5e-4
    """step size at the start"""
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """the step size at the end, as a fraction of learning_rate; 1 keeps it constant"""
    annealing_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until final_learning_rate is reached; by default total_timesteps"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor"""
    epsilon_start: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """probability of a random action at the start"""
    epsilon_end: Annotated[float, Interval(ge=0, le=1)] | None = 0.05
    """probability of a random action in the end; null: epsilon_start throughout"""
    epsilon_decay_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until epsilon_end is reached; by default half of total_timesteps"""
    tau: Annotated[float, Interval(ge=0, le=1)] = 0.005
    """how far the target network moves at every gradient step, with target_update polyak"""
    max_grad_norm: Annotated[float, Gt(0)] = 10.0
    """limit of the gradient's global norm; .inf for none"""
    adam_epsilon: Annotated[float, Gt(0)] = 1e-8
    """added to the root of Adam's second moment"""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """share of the last step that the optimizer momentum adds"""
    rmsprop_decay: Annotated[float, Interval(ge=0, lt=1)] = 0.95
    """decay of RMSProp's second moment"""
    rmsprop_epsilon: Annotated[float, Gt(0)] = 1e-2
    """added to RMSProp's second moment"""
    huber_delta: Annotated[float, Gt(0)] = 1.0
    """error at which huber turns from squared to linear"""
    loss_slope: float = 0.1
    """slope of sloped_squared at zero error; values settle that far below their targets"""
    value_clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """how far clipped_squared lets a prediction move from the target network's"""
    priority_exponent: Annotated[float, Ge(0)] = 0.6
    """prioritized replay: 0 draws uniformly, 1 in proportion to the error"""
    importance_exponent: Annotated[float, Interval(ge=0, le=1)] = 0.4
    """prioritized replay: how much of the bias is corrected at the start; all of it at the end"""
    priority_epsilon: Annotated[float, Gt(0)] = 1e-6
    """prioritized replay: added to the error, so that every transition can be drawn"""

    def random_play(self) -> "Hyperparams":
        """Return settings under which every action is random."""
        return exploration.always(self)


class State(struct.PyTreeNode):
    """All that one agent carries from one update to the next."""

    params: Any
    """the network's parameters"""
    target_params: Any
    """the target network's"""
    opt_state: Any
    phase: jax.Array
    """[] int32, phases done; a phase is `train_interval` environment steps"""
    key: jax.Array
    env_state: Any
    """[N, ...]"""
    obs: jax.Array
    """[N, *obs_shape] observations to act on next"""
    unfinished: episodes.Unfinished
    ring: Steps
    """the replay memory, [C, ...]"""
    priorities: Priorities | None
    epsilon: jax.Array
    """[] probability of a random action, in the last phase"""


METRICS = "value_loss", "value_error", "q_value"


class Policy(NamedTuple):
    """What acting needs, and what is saved of an agent."""

    params: Any
    epsilon: jax.Array
    """[] probability of a random action, unless acting is greedy"""


class Batch(NamedTuple):
    """A minibatch as the value loss sees it, [B, ...]."""

    obs: jax.Array
    action: jax.Array
    target: jax.Array
    old_prediction: jax.Array
    """the target network's value of the action"""
    weight: jax.Array
    """importance of each sample, at most 1"""


@dataclass(frozen=True)
class DQN:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not discrete, or its masks of legal actions
            cannot be used.
    """

    config: Config
    env: Any
    value_loss: ValueLoss = losses.squared
    make_optimizer: MakeOptimizer = optimizers.adam
    schedule: Schedule = schedules.constant

    def __post_init__(self) -> None:
        """Refuse what no network can be built for, before anything is compiled."""
        self.network(self.env.default_params)
        masks.check(self.env)

    def init(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> State:
        """Return a new agent in newly reset environments, with nothing to remember."""
        config = self.config
        network_key, reset_key, key = jax.random.split(key, 3)
        reset_keys = jax.random.split(reset_key, config.num_envs)
        obs, env_state = jax.vmap(self.env.reset, in_axes=(0, None))(reset_keys, env_params)
        params = self.network(env_params).init(network_key, obs)
        context = Context(hyperparams, num_updates=config.num_updates)
        layout, prioritized = config.layout, config.replay == "prioritized"
        first, first_legal = jax.tree.map(
            lambda x: x[0], (obs, masks.of_states(self.env, env_state, env_params))
        )
        return State(
            params=params,
            target_params=params,
            opt_state=self.make_optimizer(meta_params, context).init(params),
            phase=jnp.int32(0),
            key=key,
            env_state=env_state,
            obs=obs,
            unfinished=episodes.begin(config.num_envs),
            ring=layout.empty(first, config.store_observations, first_legal),
            priorities=Priorities.empty(layout.capacity) if prioritized else None,
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
        """Act for the environment steps of a phase, remember them, add to the sums (each [N])."""
        config = self.config
        frames = self.context(state, hyperparams).frames
        epsilon = exploration.epsilon(hyperparams, frames, config.total_timesteps / 2)

        def step(carry, key):
            env_state, obs, unfinished, sums = carry
            action_key, env_key = jax.random.split(key)
            legal = masks.of_states(self.env, env_state, env_params)
            values = self._values(state.params, obs, env_params, legal)
            action = values.epsilon_greedy(action_key, epsilon)
            env_keys = jax.random.split(env_key, config.num_envs)
            next_obs, env_state, reward, terminated, truncated, info = jax.vmap(
                self.env.step, in_axes=(0, 0, 0, None)
            )(env_keys, env_state, action, env_params)
            reward = reward.astype(jnp.float32)
            final_obs = info["final_observation"]
            final_legal = masks.of_info(self.env, info)
            steps = Steps(obs, action, reward, terminated, truncated, final_obs, final_legal)
            done = jnp.logical_or(terminated, truncated)
            unfinished, sums = episodes.record(unfinished, sums, reward, done)
            return (env_state, next_obs, unfinished, sums), steps

        keys = jax.random.split(key, config.train_interval // config.num_envs)
        carry = state.env_state, state.obs, state.unfinished, sums
        (env_state, obs, unfinished, sums), steps = jax.lax.scan(step, carry, keys)
        steps = jax.tree.map(lambda x: x.reshape(config.train_interval, *x.shape[2:]), steps)
        priorities = state.priorities
        if priorities is not None:
            priorities = config.layout.admit(priorities, state.phase)
        state = state.replace(
            phase=state.phase + 1,
            env_state=env_state,
            obs=obs,
            unfinished=unfinished,
            ring=config.layout.write(state.ring, steps, state.phase),
            priorities=priorities,
            epsilon=epsilon,
        )
        return state, sums

    def make_batch(
        self, state: State, key: jax.Array, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[Batch, jax.Array]:
        """Draw a minibatch from the replay memory and compute its targets.

        Returns:
            the minibatch [B, ...] and the rows [B] that it was drawn from.
        """
        config = self.config
        annealed = optimizers.annealed(self.context(state, hyperparams))
        exponent = 1.0 + (hyperparams.importance_exponent - 1.0) * (1.0 - annealed)
        rows, weight = config.layout.draw(
            key, state.phase, state.priorities, config.batch_size, exponent=exponent
        )
        drawn = config.layout.read(state.ring, rows, hyperparams.gamma)
        final_obs, legal = drawn.final_obs, drawn.final_legal
        next_values = self._values(state.target_params, final_obs, env_params, legal)
        chooser = self._values(state.params, final_obs, env_params, legal)
        chosen = (chooser if config.double else next_values).best()
        bootstrap = jnp.where(drawn.discount > 0.0, drawn.discount * next_values.of(chosen), 0.0)
        target = drawn.reward + bootstrap
        old_prediction = self._values(state.target_params, drawn.obs, env_params).of(drawn.action)
        return Batch(drawn.obs, drawn.action, target, old_prediction, weight), rows

    def loss(
        self,
        params: Any,
        batch: Batch,
        context: Context,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[jax.Array, tuple[jax.Array, dict[str, jax.Array]]]:
        """The scalar that is descended on a minibatch [B, ...]; errors [B] and diagnostics.

        The slot `value_loss` is called here, on every sample.
        """
        prediction = self._values(params, batch.obs, env_params).of(batch.action)
        value_losses = jax.vmap(self.value_loss, in_axes=(None, None, 0, 0, 0))(
            meta_params, context, prediction, batch.target, batch.old_prediction
        )
        total, error = jnp.mean(batch.weight * value_losses), prediction - batch.target
        metrics = total, jnp.sqrt(jnp.mean(jnp.square(error))), jnp.mean(prediction)
        return total, (error, dict(zip(METRICS, metrics, strict=True)))

    def learn(
        self,
        state: State,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take `gradient_steps`, then update the target network if it is due; metrics are means."""
        config = self.config
        context = self.context(state, hyperparams)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)

        def gradient_step(state, inputs):
            step, key, slots_key = inputs
            batch, rows = self.make_batch(state, key, hyperparams, env_params)
            params, opt_state = state.params, state.opt_state
            dormancy = parameters.dormancy(self.network(env_params), params, batch.obs)
            share = step / config.gradient_steps
            here = context.replace(minibatch=share, key=slots_key, dormancy=dormancy)
            grads, (error, metrics) = gradient(params, batch, here, meta_params, env_params)
            updates, opt_state = optimizer.update(grads, opt_state, params, **here.extra_args())
            params = optax.apply_updates(params, updates)
            state = state.replace(params=params, opt_state=opt_state)
            if config.target_update == "polyak":
                followed = optax.incremental_update(params, state.target_params, hyperparams.tau)
                state = state.replace(target_params=followed)
            if state.priorities is not None:
                priority = jnp.abs(error) + hyperparams.priority_epsilon
                priority = jnp.power(priority, hyperparams.priority_exponent)
                state = state.replace(priorities=set_priorities(state.priorities, rows, priority))
            return state, metrics

        count = config.gradient_steps
        inputs = jnp.arange(count), *jax.random.split(key, (2, count))
        state, metrics = jax.lax.scan(gradient_step, state, inputs)
        if config.target_update == "hard":
            due = state.phase % -(-config.target_interval // config.train_interval) == 0
            target_params = cond(due, lambda: state.params, lambda: state.target_params)
            state = state.replace(target_params=target_params)
        return state, jax.tree.map(jnp.mean, metrics)

    @with_fast_draws
    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Go through the phases of `num_steps` steps: collect, learn, collect, learn, ..."""
        config = self.config
        hyperparams = self.schedule(meta_params, self.context(state, hyperparams))
        waiting_phases = -(-config.learning_starts // config.train_interval)

        def phase(carry, key):
            state, sums, totals = carry
            collect_key, learn_key = jax.random.split(key)
            state, sums = self.collect(state, sums, collect_key, hyperparams, env_params)

            # The replay memory stays outside: a branch that returned it would copy it.
            def learn():
                after, metrics = self.learn(state, learn_key, hyperparams, meta_params, env_params)
                return after.replace(ring=None), {**metrics, "phases": jnp.float32(1.0)}

            def wait():
                return state.replace(ring=None), jax.tree.map(jnp.zeros_like, totals)

            after, metrics = cond(state.phase >= waiting_phases, learn, wait)
            state = after.replace(ring=state.ring)
            return (state, sums, jax.tree.map(jnp.add, totals, metrics)), None

        phases_key, key = jax.random.split(state.key)
        keys = jax.random.split(phases_key, config.frames_per_update // config.train_interval)
        totals = dict.fromkeys((*METRICS, "phases"), jnp.float32(0.0))
        carry = state.replace(key=key), episodes.zero_sums(config.num_envs), totals
        (state, sums, totals), _ = jax.lax.scan(phase, carry, keys)
        metrics = {name: totals[name] / jnp.maximum(totals["phases"], 1.0) for name in METRICS}
        return state, jax.tree.map(jnp.sum, sums), {**metrics, "epsilon": state.epsilon}

    def train(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> TrainResult:
        """Train one agent from scratch; metrics are reduced inside the scan, to one per update."""

        def scan_update(state, _):
            state, sums, metrics = self.update(state, hyperparams, meta_params, env_params)
            return state, (sums, metrics)

        state = self.init(key, hyperparams, meta_params, env_params)
        state, (sums, metrics) = jax.lax.scan(scan_update, state, length=self.config.num_updates)
        return TrainResult(state, sums, metrics)

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions [B] and targets [B] of a minibatch: what the value loss sees."""
        batch, _ = self.make_batch(state, state.key, hyperparams, env_params)
        values = self._values(state.params, batch.obs, env_params)
        return values.of(batch.action), batch.target

    def policy(self, state: State) -> Policy:
        """Return the part of the state that acting needs."""
        return Policy(state.params, state.epsilon)

    def act(
        self,
        policy: Policy,
        key: jax.Array,
        obs: jax.Array,
        *,
        greedy: bool,
        env_params: EnvParams = None,
        legal: jax.Array | None = None,
    ) -> jax.Array:
        """Return the action for one observation [*obs_shape]: epsilon-greedy, or the best.

        `legal` [num_actions] must be given where the environment says which actions are.
        """
        env_params = self.env.default_params if env_params is None else env_params
        values = self._values(policy.params, obs, env_params, masks.told(self.env, legal))
        return values.best() if greedy else values.epsilon_greedy(key, policy.epsilon)

    def _values(
        self, params: Any, obs: jax.Array, env_params: EnvParams, legal: jax.Array | None = None
    ) -> policies.ActionValues:
        """Return the values of all actions at observations [..., *obs_shape]."""
        values: Any = self.network(env_params).apply(params, obs)
        return policies.ActionValues(values.values, legal)

    def network(self, env_params: EnvParams) -> networks.QNetwork:
        """Return the module whose parameters are learned."""
        return networks.q_network(
            self.env,
            env_params,
            hidden_sizes=self.config.hidden_sizes,
            activation=self.config.activation,
            dueling=self.config.dueling,
        )

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """What the slots are told in this phase."""
        frames = state.phase.astype(jnp.float32) * self.config.train_interval
        return Context(
            hyperparams,
            progress=jnp.minimum(frames / self.config.total_timesteps, 1.0),
            num_updates=self.config.num_updates,
            frames=frames,
        )


def make_train(
    config: Config,
    env: Any,
    *,
    value_loss: ValueLoss = losses.squared,
    make_optimizer: MakeOptimizer = optimizers.adam,
    schedule: Schedule = schedules.constant,
) -> Train:
    """Return `train(key, hyperparams, meta_params, env_params) -> TrainResult` for one agent.

    Examples:
        >>> env, env_params = purerl.envs.make("CartPole-v1")
        >>> train = jax.jit(make_train(Config(total_timesteps=20_000), env))
        >>> result = train(jax.random.key(0), Hyperparams(), None, env_params)

    Raises:
        ValueError: if the environment's actions are not discrete.
    """
    return DQN(config, env, value_loss, make_optimizer, schedule).train
