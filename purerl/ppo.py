"""Proximal policy optimisation (Schulman et al. 2017), one pure function from key to trained agent.

    env, env_params = envs.make("CartPole-v1")
    train = make_train(Config(), env, value_loss=losses.squared)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

Settings that it shares with other learners are in `purerl.parts.training`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.fast.loops import scan_gradient_steps
from purerl.parts import losses, minibatches, networks, optimizers, returns, rollouts, training
from purerl.parts.normalization import Normalizer, RunningStatistics, normalized, standardized
from purerl.types import (
    Context,
    Environment,
    EnvParams,
    EpisodeSums,
    LearnerEntry,
    MakeOptimizer,
    MetaParams,
    PolicyLoss,
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

    The defaults, here and of `Hyperparams`, equal CleanRL's `ppo.py` for classic control.
    CleanRL also clips the value loss (`value_loss=losses.clipped_squared`, the default of
    `metaevo train`), and treats a truncation as a termination, where we bootstrap.

    Raises:
        ValueError: if a batch cannot be divided into minibatches or no update fits.
    """

    update_epochs: Annotated[int, Interval(gt=0, le=1_000_000)] = 4
    """passes over each batch"""
    num_minibatches: Annotated[int, Gt(0)] = 4
    """minibatches, and gradient steps, of each pass"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (64, 64)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """activation function of the hidden layers"""
    shared_network: bool = False
    """use one torso for policy and value instead of one each"""
    layer_norm: bool = False
    """normalise each layer before its activation"""
    recurrent_size: Annotated[int, Ge(0)] = 0
    """units of a GRU behind each torso, a memory for partially observed tasks; 0 for none"""
    squash_actions: bool = False
    """bring continuous actions within their bounds by tanh instead of clipping"""
    state_dependent_std: bool = False
    """let the network output the standard deviation of continuous actions"""
    network: Any = None
    """a flax module of your own, or a function of the action space that returns one, in place of
    the network that the settings above describe (docs/how-to/network.md)"""
    normalize_advantages: Literal["minibatch", "batch", "none"] = "minibatch"
    """set over which advantages get mean 0 and standard deviation 1"""
    normalize_observations: bool = False
    """normalise observations by a running mean and variance"""
    normalize_rewards: bool = False
    """divide rewards by the running standard deviation of discounted returns"""

    def __post_init__(self) -> None:
        super().__post_init__()
        networks.check_config(self)
        minibatches.check(self, self.num_minibatches, whole_rollouts=self.recurrent_size > 0)
        samples = {"batch": self.batch_size, "minibatch": self.batch_size // self.num_minibatches}
        if samples.get(self.normalize_advantages) == 1:
            share = " / num_minibatches" if self.normalize_advantages == "minibatch" else ""
            raise ValueError(
                f"num_envs x num_steps{share} = 1 must be at least 2, because the normalised "
                "advantage of a single sample is 0 (or set normalize_advantages to none)"
            )


class Hyperparams(training.BaseHyperparams):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 0.0
    clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """largest distance of the probability ratio from 1"""
    clip_epsilon_high: Annotated[float, Gt(0)] = 0.28
    """largest distance of the ratio above 1 under clip_higher"""
    kl_coef: Annotated[float, Gt(0)] = 3.0
    """weight of the divergence from the old policy under kl_penalty"""
    apa_temperature: Annotated[float, Gt(0)] = 1.0
    """divides the advantage under apa"""
    dpo_alpha: Annotated[float, Gt(0)] = 2.0
    """scale of the discovered policy loss's drift for positive advantages"""
    dpo_beta: Annotated[float, Gt(0)] = 0.6
    """scale of the discovered policy loss's drift for negative advantages"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor"""
    gae_lambda: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """trace decay of the advantages"""
    return_steps: Annotated[float, Ge(1)] = 5.0
    """rewards in the returns of n_step"""
    entropy_coef: Annotated[float, Ge(0)] = 0.01
    """weight of the entropy bonus"""
    vf_coef: Annotated[float, Ge(0)] = 0.5
    """weight of the value loss"""


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    params: PyTree
    opt_state: PyTree
    update: jax.Array
    """[] int32, updates done"""
    key: jax.Array
    envs: rollouts.Environments
    """N environments; their observations are not normalised"""
    normalizer: Normalizer
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


class Policy(NamedTuple):
    """Parameters for acting, which are saved with an agent."""

    params: PyTree
    observation_statistics: RunningStatistics | None


class Batch(NamedTuple):
    """Transitions with the results of `make_batch`, [B, ...]; their observations are normalised."""

    transition: Transition
    value: jax.Array
    """[B] predictions of the network that collected the data"""
    advantage: jax.Array
    """[B]"""
    target: jax.Array
    """[B] targets of the value predictions"""


@dataclass(frozen=True)
class PPO:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are neither discrete nor a vector, or a network
            does not fit.
    """

    config: Config
    env: Environment
    value_loss: ValueLoss = losses.squared
    policy_loss: PolicyLoss = losses.clipped_surrogate
    make_optimizer: MakeOptimizer = optimizers.adam
    schedule: Schedule = optimizers.constant_schedule
    targets: TargetEstimator = returns.gae

    train = training.train

    def __post_init__(self) -> None:
        has_memory = self.begin() is not None  # the network must fit the environment
        minibatches.check(self.config, self.config.num_minibatches, whole_rollouts=has_memory)

    @cached_property
    def network(self) -> Any:
        """Policy and value function: `(params, obs, memory, done) -> policy, value, memory`."""
        return networks.actor_critic(self.env, self.config)

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
        memory = self.network.no_memory(config.num_envs)
        envs = rollouts.reset(self.env, env_params, reset_key, config.num_envs, memory)
        params = self.network.init(network_key, envs.obs)
        state = State(
            params=params,
            opt_state=(),
            update=jnp.int32(0),
            key=key,
            envs=envs,
            normalizer=Normalizer.create(
                envs.obs,
                observations=config.normalize_observations,
                rewards=config.normalize_rewards,
            ),
        )
        optimizer = self.make_optimizer(meta_params, self.context(state, hyperparams))
        return state.replace(opt_state=optimizer.init(params))

    def collect(self, state: State, env_params: EnvParams) -> tuple[State, Transition, EpisodeSums]:
        """Act for `num_steps` steps; return transitions [T, N, ...] and the sums over episodes."""

        def act(obs, memory):
            obs = state.normalizer.observe(obs)
            policy, _, memory = self.network.apply(state.params, obs, memory)
            return policy, memory

        action_key, env_key, key = jax.random.split(state.key, 3)
        num_steps, start = self.config.num_steps, self.begin()
        envs, transitions, sums = rollouts.collect(
            self.env, env_params, act, (action_key, env_key), state.envs, num_steps, start
        )
        return state.replace(key=key, envs=envs), transitions, sums

    def make_batch(
        self, state: State, transitions: Transition, context: Context, meta_params: MetaParams
    ) -> tuple[State, Batch]:
        """Compute advantages and value targets of a rollout [T, N, ...], by the slot `targets`.

        Also update the running statistics in the state.
        """
        config, params, hyperparams = self.config, state.params, context.hyperparams
        obs = state.normalizer.observe(transitions.obs)
        final_obs = state.normalizer.observe(transitions.final_obs)

        _, value, remembered = self.network.apply(params, obs, transitions.memory)
        _, next_value, _ = self.network.apply(params, final_obs, remembered)  # before any reset
        normalizer, reward = state.normalizer.update(
            transitions.obs, transitions.reward, transitions.done, gamma=hyperparams.gamma
        )
        ends = transitions.terminated, transitions.truncated
        rollout = Rollout(reward, value, next_value, *ends, transitions.log_prob)
        advantage, target = returns.estimates(self.targets, meta_params, context, rollout)
        if config.normalize_advantages == "batch":
            advantage = standardized(advantage)
        batch = Batch(transitions._replace(obs=obs), value, advantage, target)
        batch = jax.tree.map(lambda x: x.reshape(config.batch_size, *x.shape[2:]), batch)
        return state.replace(normalizer=normalizer), batch

    def replay(self, params: PyTree, batch: Batch) -> tuple[Any, jax.Array]:
        """Return the policy and the values [B] at a batch's observations.

        A recurrent network processes whole rollouts, from its memory at their start.
        """
        transition, done = batch.transition, None
        memory = transition.memory
        if memory is not None:
            done = transition.done.reshape(self.config.num_steps, -1)
            memory = jax.tree.map(lambda x: x[: done.shape[1]], memory)  # before the first steps
        policy, value, _ = self.network.apply(params, transition.obs, memory, done)
        return policy, value

    def loss(
        self, params: PyTree, batch: Batch, context: Context, meta_params: MetaParams
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of a (mini)batch [B, ...], and diagnostics.

        policy loss + vf_coef * value loss - entropy_coef * entropy (Schulman et al. 2017, eq. 9).
        The slots `policy_loss` and `value_loss` are called here, on every sample.
        """
        hyperparams = context.hyperparams
        policy, value = self.replay(params, batch)
        advantage = batch.advantage
        if self.config.normalize_advantages == "minibatch":
            advantage = standardized(advantage)
        log_ratio = policy.log_prob(batch.transition.action) - batch.transition.log_prob
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
            "beyond_clip_epsilon": jnp.mean(jnp.abs(ratio - 1.0) > hyperparams.clip_epsilon),
        }
        return total, metrics

    def learn(
        self, state: State, batch: Batch, hyperparams: Hyperparams, meta_params: MetaParams
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take `update_epochs x num_minibatches` gradient steps on a batch [B, ...].

        Metrics are means over the steps.
        """
        config, context = self.config, self.context(state, hyperparams)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)

        def gradient_step(params, opt_state, inputs):
            rows, place = inputs
            minibatch = jax.tree.map(lambda x: x[rows], batch)
            seen = minibatch.transition.obs
            here = context.replace(**place, observations=seen, network=self.network)
            grads, metrics = gradient(params, minibatch, here, meta_params)
            updates, opt_state = optimizer.update(grads, opt_state, params, context=here)
            return updates, opt_state, metrics

        shuffle_key, key, slots_key = jax.random.split(state.key, 3)
        length = 1 if self.begin() is None else config.num_steps
        steps = minibatches.steps(config, shuffle_key, slots_key, length=length)
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
        state, transitions, sums = self.collect(state, env_params)
        state, batch = self.make_batch(state, transitions, context, meta_params)
        state, metrics = self.learn(state, batch, context.hyperparams, meta_params)
        return state, sums, metrics

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
        state, transitions, _ = self.collect(state, env_params)
        context = self.context(state, hyperparams)
        _, batch = self.make_batch(state, transitions, context, meta_params)
        return batch.value, batch.target

    def policy(self, state: State) -> Policy:
        """Return the parameters for acting."""
        return Policy(state.params, state.normalizer.observations)

    def begin(self) -> PyTree:
        """Return the memory at the start of an episode; None without recurrence."""
        return self.network.no_memory()

    def action_distribution(
        self, policy: Policy, obs: jax.Array, memory: PyTree = None
    ) -> tuple[Any, PyTree]:
        """Return the distribution of actions at one raw observation, and the next memory."""
        obs = normalized(obs, policy.observation_statistics)
        distribution, _, memory = self.network.apply(policy.params, obs, memory)
        return distribution, memory


SLOTS = (
    losses.VALUE_LOSS.comparing("squared", "clipped_squared", "huber"),
    losses.POLICY_LOSS.comparing("clipped_surrogate", "dpo"),
    optimizers.MAKE_OPTIMIZER.comparing("adam", "momentum", "rmsprop"),
    optimizers.SCHEDULE,
    returns.TARGETS.comparing("gae", "n_step"),
)
"""The functions that can be replaced."""

LEARNER = LearnerEntry(Config, Hyperparams, PPO, SLOTS)
make_train = LEARNER.make_train
