"""PPO in PyTorch with Gymnasium's environments: the reference that compiled PPO is compared with.

A plain implementation of the algorithm in `purerl.ppo`, in the usual form: NumPy environments
stepped in one process, one network call per step. Like the usual references, it treats the value of
a state after a time limit as zero.
"""

import importlib
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from purerl import ppo


class Record(NamedTuple):
    """A learning curve."""

    frames: np.ndarray
    """[points] environment steps"""
    seconds: np.ndarray
    """[points] seconds since the start"""
    returns: np.ndarray
    """[points] mean return of the episodes finished since the last point, NaN if there are none"""


def train(
    config: ppo.Config,
    hyperparams: ppo.Hyperparams,
    vector: VectorEnv,
    seed: int,
    progress: Callable[[int], Any],
) -> Record:
    """Train one agent with a discrete action space.

    Args:
        config: as for `purerl.ppo`; without normalised observations and rewards.
        hyperparams: as for `purerl.ppo`; the value loss is the clipped squared error.
        vector: `config.num_envs` environments that reset in the step that ends an episode.
        seed: seed of all random numbers.
        progress: called after every update with the number of its steps.
    """
    torch: Any = importlib.import_module("torch")  # optional
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # as every JAX device on a CPU
    num_actions = int(vector.single_action_space.n)  # type: ignore[attr-defined]
    obs_size = int(np.prod(vector.single_observation_space.shape or ()))
    sizes, activation = (obs_size, *config.hidden_sizes), config.activation
    actor = _perceptron(torch, sizes, num_actions, activation=activation, scale=0.01)
    critic = _perceptron(torch, sizes, 1, activation=activation, scale=1.0)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(
        parameters, lr=hyperparams.learning_rate, eps=hyperparams.adam_epsilon
    )
    steps, count = config.num_steps, config.num_envs
    obs = torch.zeros(steps, count, obs_size)
    actions, log_probs = torch.zeros(steps, count), torch.zeros(steps, count)
    rewards, dones = torch.zeros(steps, count), torch.zeros(steps, count)
    values = torch.zeros(steps, count)
    running, curve = np.zeros(count), []
    began = time.perf_counter()
    next_obs = torch.from_numpy(_flat(vector.reset(seed=seed)[0]))
    for update in range(config.num_updates):
        horizon = hyperparams.annealing_steps or float(config.num_updates * config.batch_size)
        left = max(0.0, 1.0 - update * config.batch_size / horizon)
        final = hyperparams.final_learning_rate
        optimizer.param_groups[0]["lr"] = hyperparams.learning_rate * (final + (1 - final) * left)
        finished = []
        for step in range(steps):
            obs[step] = next_obs
            with torch.no_grad():
                policy = torch.distributions.Categorical(logits=actor(next_obs))
                action = policy.sample()
                actions[step], log_probs[step] = action, policy.log_prob(action)
                values[step] = critic(next_obs).squeeze(-1)
            array, reward, terminated, truncated, _ = vector.step(action.numpy())
            done = np.logical_or(terminated, truncated)
            next_obs = torch.from_numpy(_flat(array))
            rewards[step] = torch.from_numpy(reward.astype(np.float32))
            dones[step] = torch.from_numpy(done.astype(np.float32))
            running += reward
            finished += running[done].tolist()
            running[done] = 0.0
        with torch.no_grad():
            last_value = critic(next_obs).squeeze(-1)
        advantages = _advantages(torch, rewards, values, dones, last_value, hyperparams)
        batch = (
            obs.reshape(-1, obs_size),
            actions.reshape(-1),
            log_probs.reshape(-1),
            values.reshape(-1),
            advantages.reshape(-1),
            (advantages + values).reshape(-1),
        )
        for _ in range(config.update_epochs):
            order = torch.randperm(config.batch_size)
            for rows in order.chunk(config.num_minibatches):
                minibatch = [field[rows] for field in batch]
                loss = _loss(torch, actor, critic, minibatch, hyperparams)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(parameters, hyperparams.max_grad_norm)
                optimizer.step()
        mean = float(np.mean(finished)) if finished else np.nan
        curve.append(((update + 1) * config.batch_size, time.perf_counter() - began, mean))
        progress(config.batch_size)
    vector.close()
    return Record(*(np.array(column) for column in zip(*curve, strict=True)))


def _flat(obs: np.ndarray) -> np.ndarray:
    return obs.reshape(len(obs), -1).astype(np.float32)  # MinAtar's are bools


def _perceptron(
    torch: Any, sizes: Sequence[int], outputs: int, *, activation: str, scale: float
) -> Any:
    """Return a multilayer perceptron with orthogonal kernels and zero biases, as in `purerl`.

    Args:
        torch: the module `torch`.
        sizes: number of inputs, then units of the hidden layers.
        outputs: number of outputs.
        activation: tanh or relu.
        scale: scale of the last kernel.
    """
    make_activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[activation]
    layers = []
    for before, after in pairwise(sizes):
        layers += [torch.nn.Linear(before, after), make_activation()]
    layers.append(torch.nn.Linear(sizes[-1], outputs))
    for layer in layers[::2]:
        torch.nn.init.orthogonal_(layer.weight, scale if layer is layers[-1] else 2.0**0.5)
        torch.nn.init.zeros_(layer.bias)
    return torch.nn.Sequential(*layers)


def _advantages(
    torch: Any, rewards: Any, values: Any, dones: Any, last_value: Any, hyperparams: Any
) -> Any:
    """Return generalised advantages [T, N] (Schulman et al. 2016)."""
    advantages, trace = torch.zeros_like(rewards), torch.zeros_like(last_value)
    following = last_value
    for step in reversed(range(len(rewards))):
        goes_on = 1.0 - dones[step]
        error = rewards[step] + hyperparams.gamma * goes_on * following - values[step]
        trace = error + hyperparams.gamma * hyperparams.gae_lambda * goes_on * trace
        advantages[step], following = trace, values[step]
    return advantages


def _loss(torch: Any, actor: Any, critic: Any, minibatch: Any, hyperparams: Any) -> Any:
    """Return clipped surrogate, clipped value loss and entropy bonus of a minibatch."""
    obs, action, old_log_prob, old_value, advantage, target = minibatch
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy = torch.distributions.Categorical(logits=actor(obs))
    ratio = (policy.log_prob(action) - old_log_prob).exp()
    clip = hyperparams.clip_epsilon
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    value = critic(obs).squeeze(-1)
    clip = hyperparams.value_clip_epsilon
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    value_loss = 0.5 * torch.max((value - target) ** 2, (clipped - target) ** 2).mean()
    entropy = policy.entropy().mean()
    return -surrogate.mean() + hyperparams.vf_coef * value_loss - hyperparams.entropy_coef * entropy
