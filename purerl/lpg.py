"""An actor-critic whose whole update rule is a slot, after LPG (Oh et al. 2020, arXiv 2007.08794).

    train = make_train(config, env, update_rule=update_rules.a2c)
    result = train(key, hyperparams, meta_params, env_params)      # vmap over any of the four

An agent has a policy and, for every state, a prediction: a few numbers without a meaning of their
own. After each rollout the rule sees rewards, ends of episodes, probabilities of the actions and
predictions, and says how much likelier each action is to become, and what was to be predicted. The
agent takes one gradient step towards that:

    loss = mean of  -policy_target * log pi(a|s) + prediction_coef * D(prediction, its target)

where D is the divergence KL(prediction || target) of two distributions, or half the squared error
of a value. A hand-written rule may weigh the policy's entropy, too; LPG finds its own means.

Top to bottom: settings, what is carried along, then the algorithm in the order in which data flow:
`init`, `collect`, `loss`, `learn`, `update`, `train`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from purerl.fast.threefry import with_fast_draws
from purerl.parts import episodes, masks, networks, optimizers, policies, update_rules
from purerl.types import (
    PREDICTION_SIZE,
    Context,
    EnvParams,
    EpisodeSums,
    MakeOptimizer,
    MetaParams,
    Targets,
    Train,
    TrainResult,
    Trajectory,
    UpdateRule,
)


@dataclass(frozen=True)
class Config:
    """What fixes shapes and counts. Static: a change recompiles.

    Raises:
        ValueError: if no update fits.
    """

    total_timesteps: Annotated[int, Gt(0)] = 320_000
    """environment steps of one agent, rounded down to whole updates"""
    num_envs: Annotated[int, Gt(0)] = 64
    """parallel environments of one agent"""
    num_steps: Annotated[int, Gt(0)] = 20
    """steps in every environment between two updates"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = ()
    """units of each hidden layer; none for tables, where observations are one-hot"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """of the hidden layers"""
    shortest_lifetime: Annotated[float, Interval(gt=0, le=1)] = 1.0
    """share of the updates after which the first agents stop learning; each draws its own lifetime
    between that and all updates, log-uniformly, and then acts on as it is"""

    def __post_init__(self) -> None:
        """Check what no single field can."""
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

    learning_rate: Annotated[float, Ge(0)] = 0.05
    """step size at the start"""
    final_learning_rate: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """the step size at the end, as a fraction of learning_rate; 1 keeps it constant"""
    annealing_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until final_learning_rate is reached; by default the agent's lifetime"""
    prediction_coef: Annotated[float, Ge(0)] = 0.5
    """weight of the predictions' loss"""
    max_grad_norm: Annotated[float, Gt(0)] = 0.5
    """limit of the gradient's global norm; .inf for none"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.99
    """discount factor of a2c"""
    gae_lambda: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """trace decay of a2c's advantages"""
    entropy_coef: Annotated[float, Ge(0)] = 0.01
    """weight of a2c's entropy bonus"""
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
    """the network's parameters"""
    opt_state: Any
    update: jax.Array
    """[] int32, updates done"""
    lifetime: jax.Array
    """[] int32, updates that change the agent"""
    key: jax.Array
    env_state: Any
    """[N, ...]"""
    obs: jax.Array
    """[N, *obs_shape] observations to act on next"""
    unfinished: episodes.Unfinished


class Experience(NamedTuple):
    """A rollout: what the rule sees of it, and what the gradient step needs besides."""

    obs: jax.Array
    """[T, N, *obs_shape]"""
    action: jax.Array
    """[T, N] int32"""
    trajectory: Trajectory


@dataclass(frozen=True)
class LPG:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not discrete.
    """

    config: Config
    env: Any
    update_rule: UpdateRule = update_rules.a2c
    make_optimizer: MakeOptimizer = optimizers.adam

    def __post_init__(self) -> None:
        """Refuse what no network can be built for, before anything is compiled."""
        self.network(self.env.default_params)
        masks.refuse(self.env, "LPG")

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
        reset_keys = jax.random.split(reset_key, config.num_envs)
        obs, env_state = jax.vmap(self.env.reset, in_axes=(0, None))(reset_keys, env_params)
        params = self.network(env_params).init(network_key, obs)
        share = config.shortest_lifetime ** jax.random.uniform(lifetime_key)
        state = State(
            params=params,
            opt_state=(),
            update=jnp.int32(0),
            lifetime=jnp.ceil(share * config.num_updates).astype(jnp.int32),
            key=key,
            env_state=env_state,
            obs=obs,
            unfinished=episodes.begin(config.num_envs),
        )
        optimizer = self.make_optimizer(meta_params, self.context(state, hyperparams))
        return state.replace(opt_state=optimizer.init(params))

    def collect(self, state: State, env_params: EnvParams) -> tuple[State, Experience, EpisodeSums]:
        """Act for `num_steps` steps.

        Returns:
            the state after the rollout, the rollout [T, N, ...], and the sums over episodes.
        """
        config = self.config
        action_key, env_key, key = jax.random.split(state.key, 3)
        action_keys = jax.random.split(action_key, config.num_steps)
        env_keys = jax.random.split(env_key, (config.num_steps, config.num_envs))

        def step(carry, keys):
            env_state, obs, unfinished, sums = carry
            action_key, env_keys = keys

            policy, prediction = self.outputs(state.params, obs, env_params)
            action = policy.sample(action_key)
            next_obs, env_state, reward, terminated, truncated, info = jax.vmap(
                self.env.step, in_axes=(0, 0, 0, None)
            )(env_keys, env_state, action, env_params)
            reward = reward.astype(jnp.float32)
            _, next_prediction = self.outputs(state.params, info["final_observation"], env_params)
            trajectory = Trajectory(
                reward, terminated, truncated, policy.log_prob(action), prediction, next_prediction
            )

            done = jnp.logical_or(terminated, truncated)
            unfinished, sums = episodes.record(unfinished, sums, reward, done)
            carry = env_state, next_obs, unfinished, sums
            return carry, Experience(obs, action, trajectory)

        carry = state.env_state, state.obs, state.unfinished, episodes.zero_sums(config.num_envs)
        carry, experience = jax.lax.scan(step, carry, (action_keys, env_keys))
        env_state, obs, unfinished, sums = carry
        state = state.replace(key=key, env_state=env_state, obs=obs, unfinished=unfinished)
        return state, experience, jax.tree.map(jnp.sum, sums)

    def loss(
        self,
        params: Any,
        experience: Experience,
        targets: Targets,
        hyperparams: Hyperparams,
        env_params: EnvParams,
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The scalar that is descended on a rollout [T, N], and diagnostics."""
        policy, prediction = self.outputs(params, experience.obs, env_params)
        policy_loss = -jnp.mean(targets.policy * policy.log_prob(experience.action))
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
        experience: Experience,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[State, dict[str, jax.Array]]:
        """Ask the rule, and take one gradient step; none after the agent's lifetime."""
        slots_key, key = jax.random.split(state.key)
        context = self.context(state, hyperparams).replace(key=slots_key)
        targets = self.update_rule(meta_params, context, experience.trajectory)
        optimizer = optax.with_extra_args_support(self.make_optimizer(meta_params, context))
        gradient = jax.grad(self.loss, has_aux=True)
        grads, metrics = gradient(state.params, experience, targets, hyperparams, env_params)
        updates, opt_state = optimizer.update(
            grads, state.opt_state, state.params, **context.extra_args()
        )
        learned = optax.apply_updates(state.params, updates), opt_state
        if self.config.shortest_lifetime < 1.0:
            is_alive = state.update < state.lifetime
            learned = jax.tree.map(
                lambda new, old: jnp.where(is_alive, new, old),
                learned,
                (state.params, state.opt_state),
            )
        params, opt_state = learned
        state = state.replace(params=params, opt_state=opt_state, key=key, update=state.update + 1)
        return state, metrics

    @with_fast_draws
    def update(
        self,
        state: State,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect one rollout and learn from it."""
        state, experience, sums = self.collect(state, env_params)
        state, metrics = self.learn(state, experience, hyperparams, meta_params, env_params)
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

    def outputs(
        self, params: Any, obs: jax.Array, env_params: EnvParams
    ) -> tuple[policies.Categorical, jax.Array]:
        """Return the policy and predictions at observations [..., *obs_shape]."""
        outputs: Any = self.network(env_params).apply(params, obs)
        return outputs

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return values [B] and targets [B] of a fresh rollout as a2c has them."""
        state, experience, _ = self.collect(state, env_params)
        context = self.context(state, hyperparams)
        targets = update_rules.a2c(None, context, experience.trajectory)
        return experience.trajectory.prediction[..., 0].ravel(), targets.prediction.ravel()

    def policy(self, state: State) -> Any:
        """Return the part of the state that acting needs: the network's parameters."""
        return state.params

    def act(
        self,
        policy: Any,
        key: jax.Array,
        obs: jax.Array,
        *,
        greedy: bool,
        env_params: EnvParams = None,
        legal: jax.Array | None = None,
    ) -> jax.Array:
        """Return the action for one observation [*obs_shape]: sampled, or the likeliest."""
        del legal
        env_params = self.env.default_params if env_params is None else env_params
        distribution, _ = self.outputs(policy, obs, env_params)
        return distribution.mode() if greedy else distribution.sample(key)

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """What the slots are told in this update."""
        done = state.update.astype(jnp.float32)
        return Context(
            hyperparams,
            progress=jnp.minimum(done / state.lifetime, 1.0),
            num_updates=state.lifetime,
            frames=done * self.config.batch_size,
        )

    def network(self, env_params: EnvParams) -> networks.ActorPredictor:
        """Return the module whose parameters are learned."""
        return networks.actor_predictor(
            self.env,
            env_params,
            prediction_size=PREDICTION_SIZE,
            hidden_sizes=self.config.hidden_sizes,
            activation=self.config.activation,
        )


def make_train(
    config: Config,
    env: Any,
    *,
    update_rule: UpdateRule = update_rules.a2c,
    make_optimizer: MakeOptimizer = optimizers.adam,
) -> Train:
    """Return `train(key, hyperparams, meta_params, env_params) -> TrainResult` for one agent.

    Examples:
        >>> env, env_params = purerl.envs.make("GridWorld")
        >>> train = jax.jit(make_train(Config(), env))
        >>> result = train(jax.random.key(0), Hyperparams(), None, env_params)

    Raises:
        ValueError: if the environment's actions are not discrete.
    """
    return LPG(config, env, update_rule, make_optimizer).train


def _distance(prediction: jax.Array, target: jax.Array) -> jax.Array:
    """How far predictions [T, N, PREDICTION_SIZE] are from their targets, [T, N].

    KL(prediction || target) of logits, or half the squared error of the first number.
    """
    if target.ndim == prediction.ndim:
        log_prob, log_target = jax.nn.log_softmax(prediction), jax.nn.log_softmax(target)
        return jnp.sum(jnp.exp(log_prob) * (log_prob - log_target), axis=-1)
    return 0.5 * jnp.square(prediction[..., 0] - target)
