"""Proximal policy optimisation (Schulman et al. 2017), one pure function from key to trained agent.

    train = make_train(config, env, value_loss=losses.squared)
    result = train(key, hyperparams, meta_params, env_params)      # vmap over any of the four

Top to bottom: settings, what is carried from update to update, then the algorithm in the order in
which data flows: `init`, `collect`, `make_batch`, `loss`, `learn`, `update`, `train`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.fast.gradient_steps import scan_gradient_steps
from purerl.fast.next_values import next_values
from purerl.fast.shuffling import permutations
from purerl.fast.threefry import with_fast_draws
from purerl.parts import episodes, losses, masks, networks, optimizers, parameters, schedules
from purerl.parts.normalization import RunningStatistics, into_space, normalized, standardized
from purerl.parts.recurrence import forget
from purerl.parts.returns import discounted_running_returns, generalized_advantages
from purerl.types import (
    Context,
    EnvParams,
    EpisodeSums,
    MakeOptimizer,
    MetaParams,
    PolicyLoss,
    Schedule,
    Train,
    TrainResult,
    Transition,
    ValueLoss,
)


@dataclass(frozen=True)
class Config:
    """What fixes shapes and counts. Static: a change recompiles.

    With those of `Hyperparams`, the defaults are those of CleanRL's `ppo.py`, for classic control.
    CleanRL also clips the value loss (`value_loss=losses.clipped_squared`, the default of
    `train.py`), and takes a truncation for a termination, where ours bootstraps.

    Raises:
        ValueError: if a batch cannot be divided into minibatches or no update fits.
    """

    total_timesteps: Annotated[int, Gt(0)] = 500_000
    """environment steps of one agent, rounded down to whole updates"""
    num_envs: Annotated[int, Gt(0)] = 4
    """parallel environments of one agent"""
    num_steps: Annotated[int, Gt(0)] = 128
    """steps in every environment between two updates"""
    update_epochs: Annotated[int, Interval(gt=0, le=1_000_000)] = 4
    """passes over each batch"""
    num_minibatches: Annotated[int, Gt(0)] = 4
    """minibatches, and gradient steps, a pass"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (64, 64)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """of the hidden layers"""
    shared_network: bool = False
    """one torso for policy and value, instead of one each"""
    layer_norm: bool = False
    """layer normalisation before each activation"""
    recurrent_size: Annotated[int, Ge(0)] = 0
    """units of a GRU behind each torso, a memory for partially observed tasks; 0 for none"""
    squash_actions: bool = False
    """continuous actions come within their bounds by tanh, instead of being clipped"""
    state_dependent_std: bool = False
    """the network also says how much continuous actions vary, instead of a parameter"""
    normalize_advantages: Literal["minibatch", "batch", "none"] = "minibatch"
    """over which set advantages get mean 0 and standard deviation 1"""
    normalize_observations: bool = False
    """by a running mean and variance"""
    normalize_rewards: bool = False
    """by the running standard deviation of discounted returns"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
        if self.num_minibatches > 0 and self.batch_size % self.num_minibatches:
            raise ValueError(
                f"num_envs x num_steps = {self.batch_size} must be divisible by "
                f"num_minibatches = {self.num_minibatches}"
            )
        if self.recurrent_size and self.num_envs % max(self.num_minibatches, 1):
            raise ValueError(
                f"num_envs = {self.num_envs} must be divisible by num_minibatches = "
                f"{self.num_minibatches}: with recurrent_size, minibatches hold whole rollouts"
            )
        if self.batch_size > 0 and self.num_updates < 1:
            raise ValueError(
                f"total_timesteps = {self.total_timesteps} must be at least one batch, "
                f"num_envs x num_steps = {self.batch_size}"
            )

    @property
    def batch_size(self) -> int:
        """Transitions that an update learns from."""
        return self.num_envs * self.num_steps

    @property
    def frames_per_update(self) -> int:
        """Environment steps of one update."""
        return self.batch_size

    @property
    def num_updates(self) -> int:
        """Updates of a whole training run."""
        return self.total_timesteps // self.batch_size


class Hyperparams(struct.PyTreeNode):
    """Scalars that training reads. Traced: a change never recompiles, and each can be vmapped."""

    learning_rate: Annotated[float, Ge(0)] = 2.5e-4
    """step size at the start"""
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 0.0
    """the step size at the end, as a fraction of learning_rate; 1 keeps it constant"""
    annealing_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until final_learning_rate is reached; by default total_timesteps"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor"""
    gae_lambda: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """trace decay of the advantages"""
    clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """how far the probability ratio may move from 1"""
    entropy_coef: Annotated[float, Ge(0)] = 0.01
    """weight of the entropy bonus"""
    vf_coef: Annotated[float, Ge(0)] = 0.5
    """weight of the value loss"""
    max_grad_norm: Annotated[float, Gt(0)] = 0.5
    """limit of the gradient's global norm; .inf for none"""
    value_clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """how far clipped_squared lets a prediction move"""
    huber_delta: Annotated[float, Gt(0)] = 1.0
    """error at which huber turns from squared to linear"""
    loss_slope: float = 0.1
    """slope of sloped_squared at zero error; values settle that far below their targets"""
    dpo_alpha: Annotated[float, Gt(0)] = 2.0
    """scale of the discovered policy loss's drift for positive advantages"""
    dpo_beta: Annotated[float, Gt(0)] = 0.6
    """scale of the discovered policy loss's drift for negative advantages"""
    adam_epsilon: Annotated[float, Gt(0)] = 1e-5
    """added to the root of Adam's second moment"""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """share of the last step that the optimizer momentum adds"""
    rmsprop_decay: Annotated[float, Interval(ge=0, lt=1)] = 0.99
    """decay of RMSProp's second moment"""
    rmsprop_epsilon: Annotated[float, Gt(0)] = 1e-8
    """added to RMSProp's second moment"""

    def random_play(self) -> "Hyperparams":
        """Return settings under which the first policy, all but uniform, never changes."""
        return self.replace(learning_rate=0.0)


class State(struct.PyTreeNode):
    """All that one agent carries from one update to the next."""

    params: Any
    opt_state: Any
    update: jax.Array
    """[] int32, updates done"""
    key: jax.Array
    env_state: Any
    """[N, ...]"""
    obs: jax.Array
    """[N, *obs_shape] raw observations to act on next"""
    unfinished: episodes.Unfinished
    observation_statistics: RunningStatistics | None
    return_statistics: RunningStatistics | None
    running_return: jax.Array
    """[N] discounted return so far, by whose spread rewards are normalised"""
    memory: jax.Array | None = None
    """[N, M] what a recurrent network remembers of the running episodes"""


class Policy(NamedTuple):
    """What acting needs, and what is saved of an agent."""

    params: Any
    observation_statistics: RunningStatistics | None


class Batch(NamedTuple):
    """What `learn` uses, flattened over time and environments: [B, ...]."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    """the prediction of the network that collected the data"""
    advantage: jax.Array
    target: jax.Array
    done: Any = None
    """whether an episode ended with this step"""
    legal: jax.Array | None = None
    """which actions were legal, where not all always are"""
    memory: Any = None
    """what a recurrent network remembered before this step"""


@dataclass(frozen=True)
class PPO:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are neither discrete nor a vector, or its masks of
            legal actions cannot be used.
    """

    config: Config
    env: Any
    value_loss: ValueLoss = losses.squared
    policy_loss: PolicyLoss = losses.clipped_surrogate
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
        """Return a new agent in newly reset environments."""
        config = self.config
        network_key, reset_key, key = jax.random.split(key, 3)
        reset_keys = jax.random.split(reset_key, config.num_envs)
        obs, env_state = jax.vmap(self.env.reset, in_axes=(0, None))(reset_keys, env_params)
        params = self.network(env_params).init(network_key, obs)
        context = Context(hyperparams, num_updates=config.num_updates)
        return State(
            params=params,
            opt_state=self.make_optimizer(meta_params, context).init(params),
            update=jnp.int32(0),
            key=key,
            env_state=env_state,
            obs=obs,
            unfinished=episodes.begin(config.num_envs),
            observation_statistics=(
                RunningStatistics.create(obs.shape[1:]) if config.normalize_observations else None
            ),
            return_statistics=RunningStatistics.create(()) if config.normalize_rewards else None,
            running_return=jnp.zeros(config.num_envs),
            memory=self.network(env_params).no_memory(config.num_envs),
        )

    def collect(self, state: State, env_params: EnvParams) -> tuple[State, Transition, EpisodeSums]:
        """Act for `num_steps` steps.

        Returns:
            the state after the rollout, transitions [T, N, ...], and the sums over episodes.
        """
        config = self.config
        network: Any = self.network(env_params)
        space = self.env.action_space(env_params)
        action_key, env_key, key = jax.random.split(state.key, 3)
        action_keys = jax.random.split(action_key, config.num_steps)
        env_keys = jax.random.split(env_key, (config.num_steps, config.num_envs))

        def step(carry, keys):
            env_state, obs, memory, unfinished, sums = carry
            action_key, env_keys = keys

            inputs = normalized(obs, state.observation_statistics)
            legal = masks.of_states(self.env, env_state, env_params)
            policy, _, remembered = network.apply(state.params, inputs, memory)
            policy = policy.among(legal)
            action = policy.sample(action_key)
            log_prob = policy.log_prob(action)

            taken = into_space(action, space, squash=config.squash_actions)
            next_obs, env_state, reward, terminated, truncated, info = jax.vmap(
                self.env.step, in_axes=(0, 0, 0, None)
            )(env_keys, env_state, taken, env_params)
            reward = reward.astype(jnp.float32)
            final = info["final_observation"]
            transition = Transition(
                obs, action, log_prob, reward, terminated, truncated, final, legal, memory
            )

            done = jnp.logical_or(terminated, truncated)
            unfinished, sums = episodes.record(unfinished, sums, reward, done)
            memory = forget(remembered, done)
            return (env_state, next_obs, memory, unfinished, sums), transition

        sums = episodes.zero_sums(config.num_envs)
        carry = state.env_state, state.obs, state.memory, state.unfinished, sums
        carry, transitions = jax.lax.scan(step, carry, (action_keys, env_keys))
        env_state, obs, memory, unfinished, sums = carry
        state = state.replace(
            key=key, env_state=env_state, obs=obs, memory=memory, unfinished=unfinished
        )
        return state, transitions, jax.tree.map(jnp.sum, sums)

    def make_batch(
        self,
        state: State,
        transitions: Transition,
        hyperparams: Hyperparams,
        env_params: EnvParams,
    ) -> tuple[State, Batch]:
        """Turn a rollout into a batch with advantages and value targets.

        `state` must hold the network that collected the rollout; it returns with its running
        statistics brought up to date.
        """
        config = self.config
        network: Any = self.network(env_params)
        obs = normalized(transitions.obs, state.observation_statistics)
        final_obs = normalized(transitions.final_obs, state.observation_statistics)
        terminated, truncated = transitions.terminated, transitions.truncated
        done = jnp.logical_or(terminated, truncated)

        def critic(params, seen):
            return network.apply(params, *seen)[1]

        _, value, remembered = network.apply(state.params, obs, transitions.memory)
        after = final_obs, remembered  # both before any reset
        next_value = next_values(critic, state.params, value, after, terminated, truncated)

        reward = transitions.reward
        if state.return_statistics is not None:
            returns, running_return = discounted_running_returns(
                reward, done, state.running_return, gamma=hyperparams.gamma
            )
            statistics = state.return_statistics.merge(returns)
            reward = jnp.clip(reward * jax.lax.rsqrt(statistics.variance + 1e-8), -10.0, 10.0)
            state = state.replace(return_statistics=statistics, running_return=running_return)
        if state.observation_statistics is not None:
            statistics = state.observation_statistics.merge(transitions.obs)
            state = state.replace(observation_statistics=statistics)

        gamma, gae_lambda = hyperparams.gamma, hyperparams.gae_lambda
        advantage, target = generalized_advantages(
            reward, value, next_value, terminated, truncated, gamma=gamma, gae_lambda=gae_lambda
        )
        if config.normalize_advantages == "batch":
            advantage = standardized(advantage)
        action, log_prob = transitions.action, transitions.log_prob
        legal, memory = transitions.legal, transitions.memory
        batch = Batch(obs, action, log_prob, value, advantage, target, done, legal, memory)
        return state, jax.tree.map(lambda x: x.reshape(config.batch_size, *x.shape[2:]), batch)

    def loss(
        self,
        params: Any,
        batch: Batch,
        context: Context,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The scalar that is descended on a (mini)batch [B, ...], and diagnostics.

        policy loss + vf_coef * value loss - entropy_coef * entropy (Schulman et al. 2017, eq. 9).
        The slots `policy_loss` and `value_loss` are called here, on every sample.
        """
        hyperparams = context.hyperparams
        policy, value = self._replay(params, batch, env_params)
        advantage = batch.advantage
        if self.config.normalize_advantages == "minibatch":
            advantage = standardized(advantage)
        log_ratio = policy.log_prob(batch.action) - batch.log_prob
        entropy = jnp.mean(policy.entropy())

        policy_loss = jax.vmap(self.policy_loss, in_axes=(None, None, 0, 0))(
            meta_params, context, log_ratio, advantage
        ).mean()
        value_loss = jax.vmap(self.value_loss, in_axes=(None, None, 0, 0, 0))(
            meta_params, context, value, batch.target, batch.value
        ).mean()
        total = policy_loss + hyperparams.vf_coef * value_loss - hyperparams.entropy_coef * entropy
        ratio = jnp.exp(log_ratio)
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "value_error": jnp.sqrt(jnp.mean(jnp.square(value - batch.target))),
            "entropy": entropy,
            "approximate_kl": jnp.mean(ratio - 1.0 - log_ratio),
            "clip_fraction": jnp.mean(jnp.abs(ratio - 1.0) > hyperparams.clip_epsilon),
        }
        return total, metrics

    def learn(
        self,
        state: State,
        batch: Batch,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take `update_epochs x num_minibatches` gradient steps on a batch [B, ...].

        Returns:
            the new state, and each metric of `loss` averaged over the steps.
        """
        config = self.config
        context, network = self.context(state, hyperparams), self.network(env_params)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)

        def gradient_step(params, opt_state, inputs):
            indices, step, key = inputs
            minibatch = jax.tree.map(lambda x: x[indices], batch)
            here = context.replace(
                epoch=(step // config.num_minibatches) / config.update_epochs,
                minibatch=(step % config.num_minibatches) / config.num_minibatches,
                key=key,
                dormancy=parameters.dormancy(network, params, minibatch.obs),
            )
            grads, metrics = gradient(params, minibatch, here, meta_params, env_params)
            updates, opt_state = optimizer.update(grads, opt_state, params, **here.extra_args())
            return updates, opt_state, metrics

        num_steps = config.update_epochs * config.num_minibatches
        shuffle_key, key, slots_key = jax.random.split(state.key, 3)
        # minibatches are drawn over samples, with recurrence over environments: whole rollouts
        length = config.num_steps if config.recurrent_size else 1
        count = config.batch_size // length
        order = permutations(shuffle_key, config.update_epochs, count).reshape(num_steps, 1, -1)
        order = (count * jnp.arange(length)[None, :, None] + order).reshape(num_steps, -1)
        inputs = order, jnp.arange(num_steps), jax.random.split(slots_key, num_steps)
        params, opt_state, metrics = scan_gradient_steps(
            gradient_step, state.params, state.opt_state, inputs
        )
        state = state.replace(params=params, opt_state=opt_state, key=key, update=state.update + 1)
        return state, jax.tree.map(jnp.mean, metrics)

    @with_fast_draws
    def update(
        self,
        state: State,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect one batch of experience and learn from it."""
        hyperparams = self.schedule(meta_params, self.context(state, hyperparams))
        state, transitions, sums = self.collect(state, env_params)
        state, batch = self.make_batch(state, transitions, hyperparams, env_params)
        state, metrics = self.learn(state, batch, hyperparams, meta_params, env_params)
        return state, sums, metrics

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

    def log_prob(self, state: State, batch: Batch, env_params: EnvParams) -> jax.Array:
        """Return log pi(a | s) [B] of a batch under the present policy."""
        return self._replay(state.params, batch, env_params)[0].log_prob(batch.action)

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions [B] and targets [B] of a fresh rollout: what the value loss sees."""
        state, transitions, _ = self.collect(state, env_params)
        _, batch = self.make_batch(state, transitions, hyperparams, env_params)
        return batch.value, batch.target

    def policy(self, state: State) -> Policy:
        """Return the part of the state that acting needs."""
        return Policy(state.params, state.observation_statistics)

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
        """Return the action for one raw observation [*obs_shape]: sampled, or the likeliest.

        `env_params` hold the bounds of the actions, by default the environment's own; `legal`
        [num_actions] says which are legal, and must be given where the environment says so.

        Raises:
            ValueError: if the policy is recurrent: it needs `act_and_remember`.
        """
        if self.config.recurrent_size:
            raise ValueError("a recurrent policy acts with `act_and_remember`, from `begin` on")
        action, _ = self.act_and_remember(
            policy, None, key, obs, greedy=greedy, env_params=env_params, legal=legal
        )
        return action

    def begin(self) -> jax.Array | None:
        """Return what is remembered when an episode begins: [M], None without recurrence."""
        return self.network(self.env.default_params).no_memory()

    def act_and_remember(
        self,
        policy: Policy,
        memory: jax.Array | None,
        key: jax.Array,
        obs: jax.Array,
        *,
        greedy: bool,
        env_params: EnvParams = None,
        legal: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array | None]:
        """Return the action, as `act` does, and the memory for the next step of the episode."""
        env_params = self.env.default_params if env_params is None else env_params
        inputs = normalized(obs, policy.observation_statistics)
        network: Any = self.network(env_params)
        distribution, _, memory = network.apply(policy.params, inputs, memory)
        distribution = distribution.among(masks.told(self.env, legal))
        action = distribution.mode() if greedy else distribution.sample(key)
        space = self.env.action_space(env_params)
        return into_space(action, space, squash=self.config.squash_actions), memory

    def _replay(self, params: Any, batch: Batch, env_params: EnvParams) -> tuple[Any, jax.Array]:
        """Return the policy, among what is legal, and the values [B] at a batch's observations.

        A recurrent network goes through whole rollouts, from what it remembered when they began.
        """
        memory, done = batch.memory, None
        if memory is not None:
            done = batch.done.reshape(self.config.num_steps, -1)
            memory = memory[: done.shape[1]]  # before the first steps
        network: Any = self.network(env_params)
        policy, value, _ = network.apply(params, batch.obs, memory, done)
        return policy.among(batch.legal), value

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """What the slots are told in this update."""
        frames = state.update.astype(jnp.float32) * self.config.batch_size
        whole = float(self.config.num_updates * self.config.batch_size)
        return Context(
            hyperparams,
            progress=jnp.minimum(frames / whole, 1.0),
            num_updates=self.config.num_updates,
            frames=frames,
        )

    def network(self, env_params: EnvParams) -> networks.ActorCritic:
        """Return the module whose parameters are learned."""
        return networks.actor_critic(
            self.env,
            env_params,
            hidden_sizes=self.config.hidden_sizes,
            activation=self.config.activation,
            shared=self.config.shared_network,
            layer_norm=self.config.layer_norm,
            recurrent_size=self.config.recurrent_size,
            squash=self.config.squash_actions,
            state_dependent_std=self.config.state_dependent_std,
        )


def make_train(
    config: Config,
    env: Any,
    *,
    value_loss: ValueLoss = losses.squared,
    policy_loss: PolicyLoss = losses.clipped_surrogate,
    make_optimizer: MakeOptimizer = optimizers.adam,
    schedule: Schedule = schedules.constant,
) -> Train:
    """Return `train(key, hyperparams, meta_params, env_params) -> TrainResult` for one agent.

    Examples:
        >>> env, env_params = purerl.envs.make("CartPole-v1")
        >>> train = jax.jit(make_train(Config(total_timesteps=8192), env))
        >>> result = train(jax.random.key(0), Hyperparams(), None, env_params)

    Raises:
        ValueError: if the environment's actions are neither discrete nor a vector.
    """
    return PPO(config, env, value_loss, policy_loss, make_optimizer, schedule).train
