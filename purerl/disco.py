"""An agent that learns by Disco103, the learned update rule of DiscoRL (Oh et al. 2025).

    env, env_params = envs.make("Catch-bsuite")
    train = make_train(Config(weights="disco_103.npz"), env)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

The rule (`purerl.parts.disco_rule`) returns targets for a policy, a prediction y of every state, a
prediction z of every action, and the action values q. The agent draws trajectories from a replay
memory and takes a step of Adam on

    KL(target || policy) + KL(target || y) + KL(target || z) + KL(next policy || its prediction)
    + value_coef * cross-entropy of q

The replay and all settings but the learning rate are taken from the authors' example on Catch.
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

from purerl.fast.threefry import with_fast_draws
from purerl.parts import disco_rule, networks, policies, rollouts, training
from purerl.parts.disco_rule import Memory, Outputs, Trajectory, Weights
from purerl.types import (
    Environment,
    EnvParams,
    EpisodeSums,
    LearnerEntry,
    MetaParams,
    PyTree,
    Train,
)

MODEL_SIZE = 128
"""Units of the LSTM that takes an action, and of the hidden layer of each head behind it."""
SMALL, LARGE = map(nn.initializers.truncated_normal, (0.01, MODEL_SIZE**-0.5))
"""Initialisers of the heads for policy and y, and of an action's contribution to the gates."""


@dataclass(frozen=True)
class Config(training.BaseConfig):
    """Static settings: a change recompiles.

    Raises:
        ValueError: if the counts do not fit together.
    """

    total_timesteps: Annotated[int, Gt(0)] = 56_000
    num_envs: Annotated[int, Gt(0)] = 2
    num_steps: Annotated[int, Gt(0)] = 28
    """steps of a trajectory"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (512, 512)
    """units of each hidden layer"""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "relu"
    """activation function of the hidden layers"""
    weights: str = "disco_103.npz"
    """file with the authors' weights, which is not part of metaevo: see docs/reference/disco.md"""
    num_trajectories: Annotated[int, Gt(0)] = 64
    """trajectories of a minibatch; learning begins when the memory holds so many"""
    buffer_trajectories: Annotated[int, Gt(0)] = 1024
    """trajectories that the replay memory holds"""

    def __post_init__(self) -> None:
        super().__post_init__()
        buffer = f"buffer_trajectories = {self.buffer_trajectories} must be"
        if self.buffer_trajectories < self.num_trajectories:
            raise ValueError(f"{buffer} at least num_trajectories = {self.num_trajectories}")
        if self.buffer_trajectories % self.num_envs:
            raise ValueError(f"{buffer} a multiple of num_envs = {self.num_envs}")

    @property
    def batch_size(self) -> int:
        """Transitions of a learning step."""
        return self.num_trajectories * self.num_steps


class Hyperparams(struct.PyTreeNode):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    learning_rate: Annotated[float, Ge(0)] = 1e-3
    """step size; no step of Adam is longer than this"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.997
    """discount factor of the action values"""
    trace: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """decay of Retrace"""
    target_decay: Annotated[float, Interval(ge=0, le=1)] = 0.9
    """share of the target network that an update keeps"""
    value_coef: Annotated[float, Ge(0)] = 0.2
    """weight of the action values' loss"""

    def random_play(self) -> "Hyperparams":
        """Return hyperparameters under which the initial, almost uniform policy never changes."""
        return self.replace(learning_rate=0.0)


class Network(nn.Module):
    """Heads for policy and y on a torso, and an LSTM that takes every action, with its own heads.

    The LSTM's cell begins as a linear function of the torso's features.
    """

    obs_ndim: int
    num_actions: int
    prediction_size: int
    hidden_sizes: Sequence[int]
    activation: str

    def setup(self) -> None:
        """Create the layers."""
        init = networks.LECUN_NORMAL
        self.torso = networks.Torso(self.obs_ndim, self.hidden_sizes, self.activation, init)
        self.policy_head = nn.Dense(self.num_actions, kernel_init=SMALL)
        self.y_head = nn.Dense(self.prediction_size, kernel_init=SMALL)
        self.cell = nn.Dense(MODEL_SIZE)
        self.gates = nn.Dense(4 * MODEL_SIZE)
        shape = self.num_actions, 4 * MODEL_SIZE
        self.gates_of_actions = self.param("gates_of_actions", LARGE, shape)
        self.z_head = self._head(self.prediction_size)
        self.q_head = self._head(disco_rule.BINS)
        self.next_policy_head = self._head(self.num_actions)

    def _head(self, size: int) -> nn.Sequential:
        return nn.Sequential([nn.Dense(MODEL_SIZE), nn.relu, nn.Dense(size)])

    def policy(self, obs: jax.Array) -> policies.Categorical:
        """Return the policy at observations [..., *obs_shape]."""
        return policies.Categorical(self.policy_head(self.torso(obs)))

    def __call__(self, obs: jax.Array) -> Outputs:
        """Return all outputs at observations [..., *obs_shape]."""
        features = self.torso(obs)
        cell = self.cell(features)
        gates = self.gates(jnp.tanh(cell))[..., None, :]
        shape = (*gates.shape[:-2], *self.gates_of_actions.shape)
        gates = gates + jnp.broadcast_to(self.gates_of_actions, shape)
        after, _ = disco_rule.lstm(gates, cell[..., None, :])
        return Outputs(
            self.policy_head(features),
            self.y_head(features),
            self.z_head(after),
            self.q_head(after),
            self.next_policy_head(after),
        )


class Agent(NamedTuple):
    """All that a learning step changes."""

    params: PyTree
    target_params: PyTree
    """averaged parameters"""
    opt_state: PyTree
    memory: Memory
    """of the rule"""


class Experience(NamedTuple):
    """Trajectories: [C, T, ...] in the replay memory, [T, B, ...] in a minibatch."""

    obs: jax.Array
    """one more than the steps: the last is the one to act on next"""
    steps: Trajectory


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    agent: Agent
    update: jax.Array
    """[] int32, updates done"""
    key: jax.Array
    envs: rollouts.Environments
    ring: Experience
    """the replay memory"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


@dataclass(frozen=True)
class Disco:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's actions are not discrete.
        SettingError: if the weights cannot be read.
    """

    config: Config
    env: Environment

    train = training.train

    def __post_init__(self) -> None:
        if not hasattr(self.env.action_space(self.env.default_params), "n"):
            raise ValueError(f"{self.env.name}: Disco103 needs a discrete action space")
        disco_rule.prediction_size(self.weights)

    @cached_property
    def weights(self) -> Weights:
        """Weights of the rule."""
        return disco_rule.read(self.config.weights)

    @cached_property
    def network(self) -> Any:
        """The network of an agent: `(params, obs) -> outputs`."""
        config = self.config
        num_actions = int(self.env.action_space(self.env.default_params).n)
        sizes = networks.obs_ndim(self.env), num_actions, disco_rule.prediction_size(self.weights)
        return Network(*sizes, config.hidden_sizes, config.activation)

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
        opt_state = optimizer(hyperparams).init(params)
        memory = disco_rule.begin(self.weights)
        rows = config.buffer_trajectories, config.num_steps
        ring = Experience(
            obs=jnp.zeros((rows[0], rows[1] + 1, *envs.obs.shape[1:]), envs.obs.dtype),
            steps=Trajectory(
                action=jnp.zeros(rows, jnp.int32),
                reward=jnp.zeros(rows),
                done=jnp.zeros(rows, bool),
                logits=jnp.zeros((*rows, self.network.num_actions)),
            ),
        )
        return State(Agent(params, params, opt_state, memory), jnp.int32(0), key, envs, ring)

    def collect(
        self, state: State, key: jax.Array, env_params: EnvParams
    ) -> tuple[State, EpisodeSums]:
        """Act for `num_steps` steps, and overwrite the oldest trajectories in the replay memory."""
        config = self.config

        def policy(obs):
            return self.network.apply(state.agent.params, obs, method="policy")

        envs, seen, sums = rollouts.collect(
            self.env,
            env_params,
            lambda obs, memory: (policy(obs), memory),
            tuple(jax.random.split(key)),
            state.envs,
            config.num_steps,
        )
        steps = Trajectory(seen.action, seen.reward, seen.done, policy(seen.obs).logits)
        new = Experience(jnp.concatenate([seen.obs, envs.obs[None]]), steps)
        position = state.update * config.num_envs % config.buffer_trajectories
        ring = jax.tree.map(
            lambda rows, new: jax.lax.dynamic_update_slice_in_dim(
                rows, jnp.swapaxes(new, 0, 1), position, axis=0
            ),
            state.ring,
            new,
        )
        return state.replace(envs=envs, ring=ring, update=state.update + 1), sums

    def draw(self, state: State, key: jax.Array) -> Experience:
        """Draw different trajectories [T, B, ...] from the replay memory, uniformly."""
        config = self.config
        written = jnp.arange(config.buffer_trajectories) < state.update * config.num_envs
        order = jnp.where(written, jax.random.uniform(key, written.shape), -1.0)
        _, rows = jax.lax.top_k(order, config.num_trajectories)
        return jax.tree.map(lambda ring: jnp.swapaxes(ring[rows], 0, 1), state.ring)

    def loss(
        self,
        params: PyTree,
        target: Outputs,
        memory: Memory,
        batch: Experience,
        hyperparams: Hyperparams,
    ) -> tuple[jax.Array, tuple[Memory, dict[str, jax.Array]]]:
        """The loss of a minibatch; the rule's next memory, and diagnostics."""
        outputs = self.network.apply(params, batch.obs)
        targets, memory = disco_rule.apply(
            self.weights,
            memory,
            jax.lax.stop_gradient(outputs),
            target,
            batch.steps,
            hyperparams.gamma,
            hyperparams.trace,
        )
        losses = disco_rule.loss(outputs, targets, batch.steps)
        metrics = {name: jnp.mean(loss) for name, loss in losses.items()}
        total = sum(metrics.values()) + (hyperparams.value_coef - 1.0) * metrics["q_loss"]
        metrics["entropy"] = jnp.mean(policies.Categorical(outputs.logits).entropy())
        return total, (memory, metrics)

    def learn(
        self, agent: Agent, batch: Experience, hyperparams: Hyperparams
    ) -> tuple[Agent, dict[str, jax.Array]]:
        """Apply the rule and take one gradient step."""
        target = self.network.apply(agent.target_params, batch.obs)
        gradient = jax.grad(self.loss, has_aux=True)
        grads, (memory, metrics) = gradient(agent.params, target, agent.memory, batch, hyperparams)
        updates, opt_state = optimizer(hyperparams).update(grads, agent.opt_state)
        params = optax.apply_updates(agent.params, updates)
        average = optax.incremental_update(
            agent.params, agent.target_params, 1.0 - hyperparams.target_decay
        )
        return Agent(params, average, opt_state, memory), metrics

    @with_fast_draws
    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect trajectories, and learn from a minibatch as soon as there are enough."""
        collect_key, draw_key, key = jax.random.split(state.key, 3)
        state, sums = self.collect(state, collect_key, env_params)
        learned, metrics = self.learn(state.agent, self.draw(state, draw_key), hyperparams)
        is_enough = state.update * self.config.num_envs >= self.config.num_trajectories
        agent = jax.tree.map(lambda new, old: jnp.where(is_enough, new, old), learned, state.agent)
        return state.replace(agent=agent, key=key), sums, metrics

    def policy(self, state: State) -> PyTree:
        """Return the parameters for acting."""
        return state.agent.params

    def action_distribution(
        self, policy: PyTree, obs: jax.Array, memory: None = None
    ) -> tuple[policies.Categorical, None]:
        """Return the distribution of actions at one observation; there is no memory."""
        return self.network.apply(policy, obs, method="policy"), None


def optimizer(hyperparams: Hyperparams) -> optax.GradientTransformation:
    """Return Adam without steps longer than the learning rate."""
    return optax.chain(
        optax.scale_by_adam(), optax.clip(1.0), optax.scale(-hyperparams.learning_rate)
    )


def make_train(config: Config, env: Environment) -> Train:
    """Return `train(key, hyperparams, meta_params, env_params) -> TrainResult` for one agent."""
    return Disco(config, env).train


LEARNER = LearnerEntry(Config, Hyperparams, Disco)
