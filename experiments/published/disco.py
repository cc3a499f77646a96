"""An agent that learns by Disco103, the learned update rule of DiscoRL (Oh et al. 2025).

    metaevo train --learner experiments/published/disco.py:DISCO --task.env Catch-bsuite \
        --train.weights path/to/disco_103.npz

The rule (`disco_rule.py`) returns targets for a policy, a prediction y of every state, a prediction
z of every action, and the action values q. The agent draws trajectories from a replay memory and
takes a step of Adam on

    KL(target || policy) + KL(target || y) + KL(target || z) + KL(next policy || its prediction)
    + 0.2 cross-entropy of q

The replay and all settings but the learning rate are taken from the authors' example on Catch.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Interval, MaxLen
from flax import struct

from experiments.published import disco_rule
from experiments.published.disco_rule import Memory, Outputs, Trajectory, Weights
from experiments.published.weights import read
from purerl.parts import networks, policies, rollouts, training
from purerl.types import Environment, EnvParams, EpisodeSums, LearnerEntry, MetaParams, PyTree

KNOWN = {"dac840a15b81e8805326363458c33979626172618f620d9e6e170315388530aa": "Disco103"}
WHERE = "github.com/google-deepmind/disco_rl, disco_rl/update_rules/weights/disco_103.npz"
MODEL_SIZE = 128
"""Units of the LSTM that takes an action, and of the hidden layer of each head behind it."""
SMALL, LARGE = map(nn.initializers.truncated_normal, (0.01, MODEL_SIZE**-0.5))
"""Initialisers of the heads for policy and y, and of an action's contribution to the gates."""
OPTIMIZER = optax.chain(optax.scale_by_adam(), optax.clip(1.0))
"""Adam without steps longer than the learning rate, by which its steps are multiplied."""
TARGET_STEP = 0.1
"""Share of the parameters in an update of the target network."""


@dataclass(frozen=True)
class Config(training.BaseConfig):
    """Static settings: a change recompiles. Counts that do not fit raise `ValueError`."""

    total_timesteps: Annotated[int, Gt(0)] = 56_000
    num_envs: Annotated[int, Gt(0)] = 2
    num_steps: Annotated[int, Gt(0)] = 28
    """steps of a trajectory"""
    hidden_sizes: Annotated[tuple[Annotated[int, Gt(0)], ...], MaxLen(64)] = (512, 512)
    """units of each hidden layer"""
    weights: str = "disco_103.npz"
    """file with the authors' weights, which is not part of metaevo: see docs/reference/disco.md"""
    num_trajectories: Annotated[int, Gt(0)] = 64
    """trajectories of a minibatch; learning begins when the memory holds so many"""
    buffer_trajectories: Annotated[int, Gt(0)] = 1024
    """trajectories that the replay memory holds"""

    def __post_init__(self) -> None:
        super().__post_init__()
        least = f"num_trajectories = {self.num_trajectories} and num_envs = {self.num_envs}"
        if self.buffer_trajectories < max(self.num_trajectories, self.num_envs):
            raise ValueError(f"buffer_trajectories = {self.buffer_trajectories} is below {least}")

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

    random_play = training.BaseHyperparams.random_play


class Network(nn.Module):
    """Heads for policy and y on a torso, and an LSTM with heads of its own for every action."""

    obs_ndim: int
    num_actions: int
    prediction_size: int
    hidden_sizes: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: jax.Array) -> Outputs:
        """Return all outputs at observations [..., *obs_shape]."""

        def head(name: str, size: int) -> jax.Array:
            hidden = nn.relu(nn.Dense(MODEL_SIZE, name=f"{name}_0")(after))
            return nn.Dense(size, name=f"{name}_1")(hidden)

        init = networks.LECUN_NORMAL
        x = networks.Torso(self.obs_ndim, self.hidden_sizes, "relu", init, name="torso")(obs)
        cell = nn.Dense(MODEL_SIZE, name="cell")(x)
        gates = nn.Dense(4 * MODEL_SIZE, name="gates")(jnp.tanh(cell))
        of_actions = self.param("gates_of_actions", LARGE, (self.num_actions, 4 * MODEL_SIZE))
        after, _ = disco_rule.lstm(gates[..., None, :] + of_actions, cell[..., None, :])
        return Outputs(
            logits=nn.Dense(self.num_actions, kernel_init=SMALL, name="policy")(x),
            y=nn.Dense(self.prediction_size, kernel_init=SMALL, name="y")(x),
            z=head("z", self.prediction_size),
            q=head("q", disco_rule.BINS),
            next_logits=head("next_policy", self.num_actions),
        )


class Agent(NamedTuple):
    """All that a learning step changes."""

    params: PyTree
    target_params: PyTree
    """averaged parameters"""
    opt_state: PyTree
    memory: Memory
    """of the rule"""


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    agent: Agent
    update: jax.Array
    """[] int32, updates done"""
    key: jax.Array
    envs: rollouts.Environments
    ring: Trajectory
    """the replay memory, the latest trajectories last"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


@dataclass(frozen=True)
class Disco:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises `ValueError` if actions are not discrete, or without the authors' weights.
    """

    config: Config
    env: Environment

    train = training.train

    def __post_init__(self) -> None:
        _ = self.network  # which must fit the environment, and reads the weights

    @cached_property
    def weights(self) -> Weights:
        """Weights of the rule."""
        return dict(read(self.config.weights, KNOWN, WHERE)[1])

    @cached_property
    def network(self) -> Any:
        """The network of an agent: `(params, obs) -> outputs`."""
        sizes = networks.num_actions(self.env, "Disco103"), len(self.weights["lstm/linear_2/b"])
        return Network(networks.obs_ndim(self.env), *sizes, self.config.hidden_sizes)

    def init(
        self, key: jax.Array, hyperparams: PyTree, meta_params: MetaParams, env_params: EnvParams
    ) -> State:
        """Return a new agent in newly reset environments."""
        network_key, reset_key, key = jax.random.split(key, 3)
        envs = rollouts.reset(self.env, env_params, reset_key, self.config.num_envs)
        params = self.network.init(network_key, envs.obs)
        agent = Agent(params, params, OPTIMIZER.init(params), disco_rule.begin(self.weights))
        _, new, _ = jax.eval_shape(self.collect, params, envs, key, env_params)
        rows = self.config.buffer_trajectories
        ring = jax.tree.map(lambda x: jnp.zeros((rows, *x.shape[1:]), x.dtype), new)
        return State(agent, jnp.int32(0), key, envs, ring)

    def collect(
        self, params: PyTree, envs: rollouts.Environments, key: jax.Array, env_params: EnvParams
    ) -> tuple[rollouts.Environments, Trajectory, EpisodeSums]:
        """Act for `num_steps` steps; return trajectories [N, T, ...]."""
        act = partial(self.action_distribution, params)
        keys, num_steps = tuple(jax.random.split(key)), self.config.num_steps
        envs, seen, sums = rollouts.collect(self.env, env_params, act, keys, envs, num_steps)
        obs, logits = jnp.concatenate([seen.obs, envs.obs[None]]), act(seen.obs)[0].logits
        new = Trajectory(obs, seen.action, seen.reward, seen.done, logits)
        return envs, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), new), sums

    def draw(self, state: State, key: jax.Array) -> Trajectory:
        """Draw different trajectories [T, B, ...] from the replay memory, uniformly."""
        age = jnp.arange(self.config.buffer_trajectories, 0, -1)
        written = age <= state.update * self.config.num_envs
        order = jnp.where(written, jax.random.uniform(key, age.shape), -1.0)
        _, rows = jax.lax.top_k(order, self.config.num_trajectories)
        return jax.tree.map(lambda ring: jnp.swapaxes(ring[rows], 0, 1), state.ring)

    def learn(
        self, agent: Agent, batch: Trajectory, hyperparams: Hyperparams
    ) -> tuple[Agent, dict[str, jax.Array]]:
        """Apply the rule and take one gradient step."""
        target = self.network.apply(agent.target_params, batch.obs)

        def loss(params):
            outputs = self.network.apply(params, batch.obs)
            seen = jax.lax.stop_gradient(outputs), target, batch, hyperparams.gamma
            targets, memory = disco_rule.apply(self.weights, agent.memory, *seen)
            losses = disco_rule.loss(outputs, targets, batch)
            metrics = {name: jnp.mean(loss) for name, loss in losses.items()}
            entropy = jnp.mean(policies.Categorical(outputs.logits).entropy())
            return sum(metrics.values()), (memory, metrics | {"entropy": entropy})

        grads, (memory, metrics) = jax.grad(loss, has_aux=True)(agent.params)
        steps, opt_state = OPTIMIZER.update(grads, agent.opt_state)
        params = optax.tree.add_scale(agent.params, -hyperparams.learning_rate, steps)
        average = optax.incremental_update(agent.params, agent.target_params, TARGET_STEP)
        return Agent(params, average, opt_state, memory), metrics

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Collect trajectories, and learn from a minibatch as soon as there are enough."""
        collect_key, draw_key, key = jax.random.split(state.key, 3)
        envs, new, sums = self.collect(state.agent.params, state.envs, collect_key, env_params)
        ring = jax.tree.map(
            lambda old, new: jnp.concatenate([old[len(new) :], new]), state.ring, new
        )
        state = state.replace(update=state.update + 1, key=key, envs=envs, ring=ring)
        learned, metrics = self.learn(state.agent, self.draw(state, draw_key), hyperparams)
        is_enough = state.update * self.config.num_envs >= self.config.num_trajectories
        agent = jax.tree.map(lambda new, old: jnp.where(is_enough, new, old), learned, state.agent)
        return state.replace(agent=agent), sums, metrics

    def policy(self, state: State) -> PyTree:
        """Return the parameters for acting."""
        return state.agent.params

    def action_distribution(
        self, policy: PyTree, obs: jax.Array, memory: None = None
    ) -> tuple[policies.Categorical, None]:
        """Return the distribution of actions at one observation; there is no memory."""
        return policies.Categorical(self.network.apply(policy, obs).logits), None


DISCO = LearnerEntry(Config, Hyperparams, Disco)
