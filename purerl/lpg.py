"""An actor-critic with a slot for its whole update rule, after LPG (Oh et al. 2020).

    env, env_params = envs.make("GridWorld")
    train = make_train(Config(), env, update_rule=a2c)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

An agent has a policy and, for every state, a prediction: a few numbers to which only the rule gives
a meaning. After each rollout the rule receives rewards, ends of episodes, probabilities of the
actions, and predictions. It returns a weight for each action and targets for the predictions
(arXiv 2007.08794). The agent then takes one gradient step on

    loss = mean of  -policy_target * log pi(a|s) + prediction_coef * D(prediction, its target)

where D is the divergence KL(prediction || target) of two distributions, or half the squared error
of a value. A hand-written rule may weigh the policy's entropy, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.fast.arithmetic import orthogonal
from purerl.parts import networks, optimizers, policies, returns, rollouts, training
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
    Slot,
    Transition,
)


@dataclass(frozen=True)
class Config(training.BaseConfig):
    """Static settings: a change recompiles.

    Raises:
        ValueError: if no update fits.
    """

    total_timesteps: Annotated[int, Gt(0)] = 320_000
    num_envs: Annotated[int, Gt(0)] = 64
    num_steps: Annotated[int, Gt(0)] = 20
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = ()
    """units of each hidden layer; none for tables, where observations are one-hot"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """activation function of the hidden layers"""
    shortest_lifetime: Annotated[float, Interval(gt=0, le=1)] = 1.0
    """share of the updates after which the first agents stop learning; each agent draws its own
    lifetime between that and all updates, log-uniformly, and acts without learning from then on"""


class Hyperparams(struct.PyTreeNode):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    learning_rate: Annotated[float, Ge(0)] = 0.05
    """step size at the start"""
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """step size at the end, as a fraction of learning_rate; 1 keeps it constant"""
    annealing_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until final_learning_rate is reached; by default the agent's lifetime"""
    max_grad_norm: Annotated[float, Gt(0)] = 0.5
    """limit of the gradient's global norm; .inf for none"""
    adam_epsilon: Annotated[float, Gt(0)] = 1e-5
    """added to the root of the second moment of Adam and its variants"""
    weight_decay: Annotated[float, Ge(0)] = 1e-2
    """share of the parameters, times the learning rate, that adamw and lion subtract in a step"""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """share of the previous step that the optimizer momentum adds"""
    rmsprop_decay: Annotated[float, Interval(ge=0, lt=1)] = 0.99
    """decay of RMSProp's second moment"""
    rmsprop_epsilon: Annotated[float, Gt(0)] = 1e-8
    """added to RMSProp's second moment"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor of a2c"""
    gae_lambda: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """trace decay of a2c's advantages"""
    entropy_coef: Annotated[float, Ge(0)] = 0.01
    """weight of a2c's entropy bonus"""
    prediction_coef: Annotated[float, Ge(0)] = 0.5
    """weight of the predictions' loss"""

    random_play = training.BaseHyperparams.random_play


PREDICTION_SIZE = 8
"""Numbers that an agent predicts in every state."""


class Trajectory(NamedTuple):
    """Input of an update rule: a rollout without observations and actions."""

    reward: jax.Array
    """[T, N] float32."""
    terminated: jax.Array
    """[T, N] bool."""
    truncated: jax.Array
    """[T, N] bool; both flags can be true."""
    log_prob: jax.Array
    """[T, N] log-probability of the action."""
    prediction: jax.Array
    """[T, N, PREDICTION_SIZE] predictions where the agent acted: numbers to which a rule gives a
    meaning, such as logits of a distribution, or the first one as a value."""
    next_prediction: jax.Array
    """[T, N, PREDICTION_SIZE] the same after the action, before any reset."""


class Targets(NamedTuple):
    """Output of an update rule, towards which the agent takes one gradient step."""

    policy: jax.Array
    """[T, N] weights of -log pi(action); positive weights make an action more likely."""
    prediction: jax.Array
    """[T, N, PREDICTION_SIZE] logits of the target distribution of predictions, or [T, N] targets
    of the first predicted number."""
    entropy: jax.Array | float = 0.0
    """[] weight of an entropy bonus for the policy"""


UpdateRule = Callable[[MetaParams, Context, Trajectory], Targets]
"""`(meta_params, context, trajectory) -> targets`, of a whole rollout."""


def a2c(meta_params: MetaParams, context: Context, trajectory: Trajectory) -> Targets:
    """Advantage actor-critic (Mnih et al. 2016) with generalised advantages.

    The first number that an agent predicts is the value. Reads `hyperparams.gamma`, `gae_lambda`
    and `entropy_coef`.
    """
    values = trajectory.prediction[..., 0], trajectory.next_prediction[..., 0]
    rollout = Rollout(trajectory.reward, *values, trajectory.terminated, trajectory.truncated)
    estimates = returns.gae(meta_params, context, rollout)
    return Targets(*estimates, context.hyperparams.entropy_coef)


class ActorPredictor(nn.Module):
    """A policy head and a head of predictions on one torso; without hidden layers, tables.

    Tables start at zero: a uniform policy. Other kernels start orthogonal, as in `ActorCritic`.
    """

    obs_ndim: int
    num_actions: int
    prediction_size: int
    hidden_sizes: Sequence[int]
    activation: str

    def setup(self) -> None:
        """Create the layers."""
        init = orthogonal(2.0**0.5)
        self.torso = networks.Torso(self.obs_ndim, self.hidden_sizes, self.activation, init)
        if self.hidden_sizes:
            self.policy_head = networks.dense(self.num_actions, orthogonal(0.01))
            self.prediction_head = networks.dense(self.prediction_size, orthogonal())
        else:
            table: dict[str, Any] = {"use_bias": False, "kernel_init": nn.initializers.zeros}
            self.policy_head = nn.Dense(self.num_actions, **table)
            self.prediction_head = nn.Dense(self.prediction_size, **table)

    def __call__(self, obs: jax.Array) -> tuple[policies.Categorical, jax.Array]:
        """Return the policy and predictions [..., prediction_size] at [..., *obs_shape]."""
        features = self.torso(obs)
        return policies.Categorical(self.policy_head(features)), self.prediction_head(features)


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    params: PyTree
    opt_state: PyTree
    update: jax.Array
    """[] int32, updates done"""
    lifetime: jax.Array
    """[] share of the updates after which the agent stops learning, in (0, 1]"""
    key: jax.Array
    envs: rollouts.Environments
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


@dataclass(frozen=True)
class LPG:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not discrete.
    """

    config: Config
    env: Environment
    update_rule: UpdateRule = a2c
    make_optimizer: MakeOptimizer = optimizers.adam

    train = training.train

    def __post_init__(self) -> None:
        _ = self.network  # which must fit the environment

    @cached_property
    def network(self) -> Any:
        """Policy and predictions: `(params, obs) -> policy, prediction`."""
        config = self.config
        sizes = networks.num_actions(self.env, "LPG"), PREDICTION_SIZE, config.hidden_sizes
        return ActorPredictor(networks.obs_ndim(self.env), *sizes, config.activation)

    def init(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> State:
        """Return a new agent in newly reset environments."""
        config = self.config
        network_key, reset_key, lifetime_key, key = jax.random.split(key, 4)
        envs = rollouts.reset(self.env, env_params, reset_key, config.num_envs)
        params = self.network.init(network_key, envs.obs)
        state = State(
            params=params,
            opt_state=(),
            update=jnp.int32(0),
            lifetime=config.shortest_lifetime ** jax.random.uniform(lifetime_key),
            key=key,
            envs=envs,
        )
        optimizer = self.make_optimizer(meta_params, self.context(state, hyperparams))
        return state.replace(opt_state=optimizer.init(params))

    def collect(self, state: State, env_params: EnvParams) -> tuple[State, Transition, EpisodeSums]:
        """Act for `num_steps` steps; return transitions [T, N, ...] and the sums over episodes."""

        def act(obs, memory):
            policy, _ = self.network.apply(state.params, obs)
            return policy, memory

        action_key, env_key, key = jax.random.split(state.key, 3)
        envs, transitions, sums = rollouts.collect(
            self.env, env_params, act, (action_key, env_key), state.envs, self.config.num_steps
        )
        return state.replace(key=key, envs=envs), transitions, sums

    def trajectory(self, params: PyTree, transitions: Transition) -> Trajectory:
        """Return the input of the rule for a rollout, with the predictions of these parameters."""
        _, prediction = self.network.apply(params, transitions.obs)
        _, next_prediction = self.network.apply(params, transitions.final_obs)
        ends = transitions.terminated, transitions.truncated
        seen = transitions.reward, *ends, transitions.log_prob
        return Trajectory(*seen, prediction, next_prediction)

    def loss(
        self, params: PyTree, transitions: Transition, targets: Targets, hyperparams: Hyperparams
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The loss of a rollout [T, N], and diagnostics."""
        policy, prediction = self.network.apply(params, transitions.obs)
        policy_loss = -jnp.mean(targets.policy * policy.log_prob(transitions.action))
        prediction_loss = jnp.mean(_distance(prediction, targets.prediction))
        entropy = jnp.mean(policy.entropy())
        total = policy_loss + hyperparams.prediction_coef * prediction_loss
        metrics = {
            "policy_loss": policy_loss,
            "prediction_loss": prediction_loss,
            "policy_target": jnp.sqrt(jnp.mean(jnp.square(targets.policy))),
            "entropy": entropy,
        }
        return total - targets.entropy * entropy, metrics

    def learn(
        self,
        state: State,
        transitions: Transition,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
    ) -> tuple[State, dict[str, jax.Array]]:
        """Apply the rule and take one gradient step; none after the agent's lifetime."""
        slots_key, key = jax.random.split(state.key)
        context = self.context(state, hyperparams).replace(key=slots_key)
        trajectory = self.trajectory(state.params, transitions)
        targets = checked_targets(self.update_rule, meta_params, context, trajectory)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)
        grads, metrics = gradient(state.params, transitions, targets, hyperparams)
        before = state.params, state.opt_state
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params, context=context)
        learned = optax.apply_updates(state.params, updates), opt_state
        if self.config.shortest_lifetime < 1.0:
            is_alive = state.update < context.num_updates
            learned = jax.tree.map(lambda new, old: jnp.where(is_alive, new, old), learned, before)
        params, opt_state = learned
        state = state.replace(params=params, opt_state=opt_state, key=key, update=state.update + 1)
        return state, metrics

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect one rollout and learn from it."""
        state, transitions, sums = self.collect(state, env_params)
        state, metrics = self.learn(state, transitions, hyperparams, meta_params)
        return state, sums, metrics

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """Return the context of the slots in this update; its updates are the agent's lifetime."""
        share: Any = state.lifetime
        lifetime = jnp.ceil(share * training.length(self.config, state)).astype(jnp.int32)
        state = state.replace(num_updates=lifetime)
        return training.context(self.config, state, hyperparams, state.update)

    def policy(self, state: State) -> PyTree:
        """Return the parameters for acting."""
        return state.params

    def action_distribution(
        self, policy: PyTree, obs: jax.Array, memory: None = None
    ) -> tuple[policies.Categorical, None]:
        """Return the distribution of actions at one observation; there is no memory."""
        distribution, _ = self.network.apply(policy, obs)
        return distribution, None


UPDATE_RULE = Slot(
    "update_rule",
    {"a2c": a2c},
    arguments=("trajectory",),
    # a learned rule brings its own discounts, traces and exploration
    ranges={
        "a2c": {
            "gamma": {"choice": [0.9, 0.95, 0.99]},
            "gae_lambda": {"uniform": [0.5, 1.0]},
            "entropy_coef": {"log_uniform": [1e-4, 0.1]},
        }
    },
)
SLOTS = UPDATE_RULE, optimizers.MAKE_OPTIMIZER.comparing("adam", "sgd", "momentum", "rmsprop")
"""The functions that can be replaced."""

LEARNER = LearnerEntry(Config, Hyperparams, LPG, SLOTS)
make_train = LEARNER.make_train


def checked_targets(
    update_rule: UpdateRule, meta_params: MetaParams, context: Context, trajectory: Trajectory
) -> Targets:
    """Return the targets of a rule.

    Raises:
        ValueError: when traced, if they have other shapes than `Targets`.
    """
    found = update_rule(meta_params, context, trajectory)
    steps = trajectory.reward.shape
    shapes = tuple(map(jnp.shape, found))
    if shapes not in ((steps, steps, ()), (steps, trajectory.prediction.shape, ())):
        raise ValueError(
            f"targets of {steps[0]} steps in {steps[1]} environments have the shapes "
            f"{', '.join(map(str, shapes))}; see purerl.lpg.Targets"
        )
    return found


def _distance(prediction: jax.Array, target: jax.Array) -> jax.Array:
    """Return the distance of predictions [T, N, PREDICTION_SIZE] from their targets, [T, N].

    KL(prediction || target) of logits, or half the squared error of the first number.
    """
    if target.ndim == prediction.ndim:
        log_prob, log_target = jax.nn.log_softmax(prediction), jax.nn.log_softmax(target)
        return jnp.sum(jnp.exp(log_prob) * (log_prob - log_target), axis=-1)
    return 0.5 * jnp.square(prediction[..., 0] - target)
