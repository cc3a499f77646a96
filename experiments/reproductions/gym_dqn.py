"""DQN in the usual way: Gymnasium's environments, a replay memory in NumPy, PyTorch.

The algorithm is the same as in `purerl.dqn` (uniform replay, hard updates of the target network,
squared error, Adam after clipping the gradient's norm), with the same settings and network.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from experiments.reproductions import torch_networks
from experiments.reproductions.gym_envs import final_observations
from experiments.reproductions.torch_networks import Record
from purerl import dqn

Batch = tuple[np.ndarray, ...]
"""Observations, actions, rewards, terminated and next observations, each [B, ...]."""


class Network:
    """Action values in PyTorch, on the CPU, with their target network and optimizer."""

    def __init__(
        self, config: dqn.Config, hyperparams: dqn.Hyperparams, vector: VectorEnv, seed: int
    ):
        self.torch, self.hyperparams = torch_networks.load(seed), hyperparams
        inputs, actions = torch_networks.sizes_of(vector)
        layers = (inputs, *config.hidden_sizes)
        self.network, self.target = (
            torch_networks.perceptron(self.torch, layers, actions, activation="relu", scale=None)
            for _ in range(2)
        )
        self.update_target()
        self.optimizer = self.torch.optim.Adam(
            self.network.parameters(), lr=hyperparams.learning_rate, eps=hyperparams.adam_epsilon
        )

    def best(self, obs: np.ndarray) -> np.ndarray:
        """Map observations [N, ...] to the best actions [N]."""
        with self.torch.no_grad():
            return self.network(self.torch.from_numpy(obs)).argmax(dim=-1).numpy()

    def learn(self, batch: Batch) -> None:
        """Take one gradient step."""
        obs, action, reward, terminated, next_obs = map(self.torch.from_numpy, batch)
        with self.torch.no_grad():
            following = self.target(next_obs).max(dim=-1).values
            goal = reward + self.hyperparams.gamma * (1.0 - terminated) * following
        prediction = self.network(obs).gather(1, action[:, None].long()).squeeze(1)
        loss = 0.5 * ((prediction - goal) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        parameters = self.network.parameters()
        self.torch.nn.utils.clip_grad_norm_(parameters, self.hyperparams.max_grad_norm)
        self.optimizer.step()

    def update_target(self) -> None:
        """Copy the network to the target network."""
        self.target.load_state_dict(self.network.state_dict())


class Memory:
    """A ring of the last transitions, in NumPy."""

    def __init__(self, capacity: int, obs_size: int):
        self.capacity, self.size, self.next = capacity, 0, 0
        self.fields: Batch = (
            np.zeros((capacity, obs_size), np.float32),
            np.zeros(capacity, np.int32),
            np.zeros(capacity, np.float32),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, obs_size), np.float32),
        )

    def add(self, *values: np.ndarray) -> None:
        """Add one transition of each environment [N, ...]."""
        rows = (self.next + np.arange(len(values[0]))) % self.capacity
        for field, value in zip(self.fields, values, strict=True):
            field[rows] = value
        self.next = (self.next + len(rows)) % self.capacity
        self.size = min(self.size + len(rows), self.capacity)

    def draw(self, rng: np.random.Generator, count: int) -> Batch:
        """Draw transitions uniformly."""
        rows = rng.integers(self.size, size=count)
        return tuple(field[rows] for field in self.fields)


def train(
    config: dqn.Config,
    hyperparams: dqn.Hyperparams,
    vector: VectorEnv,
    network: Network,
    seed: int,
    progress: Callable[[int], Any],
    points: int = 100,
) -> Record:
    """Train one agent: alternately act in all environments, store transitions, and learn.

    Args:
        config: `num_envs` must equal the vector's; n_step, double and similar are not supported.
        hyperparams: hyperparameters with a constant learning rate.
        vector: environments with flat observations that reset in the step that ends an episode.
        network: an untrained network.
        seed: seed of exploration, replay and the environments.
        progress: called with the number of steps just taken.
        points: number of points in the learning curve, of the reward per step.
    """
    rng, count = np.random.default_rng(seed), config.num_envs
    obs_size, num_actions = torch_networks.sizes_of(vector)
    memory = Memory(config.buffer_size, obs_size)
    decay = hyperparams.epsilon_decay_steps or config.total_timesteps / 2
    steps_to_learn = -(-config.train_interval // count)
    steps_to_copy = -(-config.target_interval // config.train_interval) * steps_to_learn
    total, record = config.total_timesteps // count, -(-config.total_timesteps // count // points)
    start, end = hyperparams.epsilon_start, hyperparams.epsilon_end
    end = start if end is None else end
    curve: list[tuple[int, float, float]] = []
    reward_sum = 0.0
    obs, _ = vector.reset(seed=seed)
    began = time.perf_counter()
    for step in range(1, total + 1):
        fraction = min((step - 1) * count / decay, 1.0)
        explore = rng.random(count) < start + (end - start) * fraction
        action = np.where(explore, rng.integers(num_actions, size=count), network.best(obs))
        next_obs, reward, terminated, truncated, infos = vector.step(action)
        final = final_observations(next_obs, terminated | truncated, infos)
        memory.add(obs, action, reward, terminated, final)
        obs = next_obs
        reward_sum += float(reward.sum())
        if step * count >= config.learning_starts and step % steps_to_learn == 0:
            for _ in range(config.gradient_steps):
                network.learn(memory.draw(rng, config.batch_size))
            if step % steps_to_copy == 0:
                network.update_target()
        if step % record == 0 or step == total:
            since = step - (curve[-1][0] // count if curve else 0)
            seconds = time.perf_counter() - began
            curve.append((step * count, seconds, reward_sum / max(1, since * count)))
            reward_sum = 0.0
            progress(since * count)
    vector.close()
    return Record(*(np.array(column) for column in zip(*curve, strict=True)))


def play(network: Network, vector: VectorEnv, steps: int, seed: int) -> float:
    """Return the mean reward per step of the greedy policy."""
    obs, _ = vector.reset(seed=seed)
    total = 0.0
    for _ in range(steps):
        obs, reward, *_ = vector.step(network.best(obs))
        total += float(reward.sum())
    count = vector.num_envs
    vector.close()
    return total / (steps * count)
