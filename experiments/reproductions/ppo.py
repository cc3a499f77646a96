"""PPO for many agents at once, against one agent in PyTorch with Gymnasium's environments.

The agent in PyTorch has the same settings. It is a plain implementation of the algorithm in
`purerl.ppo`, in the usual form: NumPy environments stepped in one process, one network call per
step. Like the usual references, it treats the value of a state after a time limit as zero.
"""

import importlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tqdm import trange

import metaevo
from experiments.reproductions.comparison import Comparison, Row
from purerl.types import EpisodeSums

HIDDEN = 64
"""Units of both hidden layers, with tanh."""


def pytorch(settings: Any, seed: int) -> Iterator[Row]:
    """Train one agent."""
    torch: Any = importlib.import_module("torch")  # an extra
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # as every JAX device on a CPU
    config, hyperparams = settings.train, settings.hyperparams
    steps, count, updates = config.num_steps, config.num_envs, config.num_updates
    makers = [partial(gymnasium.make, "CartPole-v1")] * count
    vector: Any = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    actor, critic = (_perceptron(torch, 4, *sizes) for sizes in ((2, 0.01), (1, 1.0)))
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, eps=hyperparams.adam_epsilon)
    distribution = torch.distributions.Categorical
    obs = torch.zeros(steps, count, 4)
    actions, log_probs, rewards, dones, values = torch.zeros(5, steps, count)
    running, ended = np.zeros(count), np.zeros((2, 1, updates))
    began = time.perf_counter()
    next_obs = torch.from_numpy(vector.reset(seed=seed)[0])
    for update in trange(updates, desc="PyTorch", unit="update", leave=False):
        left = 1.0 - update / updates
        optimizer.param_groups[0]["lr"] = hyperparams.learning_rate * left
        for step in range(steps):
            obs[step] = next_obs
            with torch.no_grad():
                policy = distribution(logits=actor(next_obs))
                action = policy.sample()
                actions[step], log_probs[step] = action, policy.log_prob(action)
                values[step] = critic(next_obs).squeeze(-1)
            array, reward, terminated, truncated, _ = vector.step(action.numpy())
            done, next_obs = np.logical_or(terminated, truncated), torch.from_numpy(array)
            rewards[step], dones[step] = torch.from_numpy(reward), torch.from_numpy(done)
            running += reward
            ended[:, 0, update] += done.sum(), running[done].sum()
            running[done] = 0.0
        with torch.no_grad():
            last_value = critic(next_obs).squeeze(-1)
        advantages = _advantages(rewards, values, dones, last_value, hyperparams)
        fields = obs, actions, log_probs, values, advantages, advantages + values
        batch = [field.flatten(0, 1) for field in fields]
        for _ in range(config.update_epochs):
            for rows in torch.randperm(config.batch_size).chunk(config.num_minibatches):
                minibatch = [field[rows] for field in batch]
                policy = distribution(logits=actor(minibatch[0]))
                loss = _loss(policy, critic(minibatch[0]), minibatch[1:], hyperparams)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(parameters, hyperparams.max_grad_norm)
                optimizer.step()
    seconds = time.perf_counter() - began
    vector.close()
    zeros = np.zeros(updates)
    sums = EpisodeSums(*map(jax.numpy.asarray, (*ended[:, 0], zeros, zeros, zeros)))
    last = float(metaevo.measures(sums)["final_return"])
    frames = updates * config.frames_per_update
    yield Row("PyTorch, 1 agent", frames, seconds, results=(last,), ended=ended)


def _perceptron(torch: Any, inputs: int, outputs: int, scale: float) -> Any:
    """Return a multilayer perceptron with orthogonal kernels and zero biases, as in `purerl`."""
    sizes = (inputs, HIDDEN, 2**0.5), (HIDDEN, HIDDEN, 2**0.5), (HIDDEN, outputs, scale)
    layers: list[Any] = []
    for before, after, gain in sizes:
        layers += [torch.nn.Linear(before, after), torch.nn.Tanh()]
        torch.nn.init.orthogonal_(layers[-2].weight, gain)
        torch.nn.init.zeros_(layers[-2].bias)
    return torch.nn.Sequential(*layers[:-1])


def _advantages(rewards: Any, values: Any, dones: Any, last_value: Any, hyperparams: Any) -> Any:
    """Return generalised advantages [T, N] (Schulman et al. 2016)."""
    advantages, trace, following = rewards.clone(), 0.0, last_value
    for step in reversed(range(len(rewards))):
        goes_on = 1.0 - dones[step]
        error = rewards[step] + hyperparams.gamma * goes_on * following - values[step]
        trace = error + hyperparams.gamma * hyperparams.gae_lambda * goes_on * trace
        advantages[step], following = trace, values[step]
    return advantages


def _loss(policy: Any, value: Any, minibatch: Any, hyperparams: Any) -> Any:
    """Return clipped surrogate, clipped value loss and entropy bonus of a minibatch."""
    action, old_log_prob, old_value, advantage, target = minibatch
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = (policy.log_prob(action) - old_log_prob).exp()
    clip = hyperparams.clip_epsilon
    surrogate = (ratio * advantage).minimum(ratio.clamp(1 - clip, 1 + clip) * advantage)
    value = value.squeeze(-1)
    clip = hyperparams.value_clip_epsilon
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    value_loss = 0.5 * ((value - target) ** 2).maximum((clipped - target) ** 2).mean()
    entropy = policy.entropy().mean()
    return -surrogate.mean() + hyperparams.vf_coef * value_loss - hyperparams.entropy_coef * entropy


COMPARISON = Comparison(
    title="PPO on CartPole-v1",
    published="the same returns as CleanRL at equal environment steps; 10 times as fast with one "
    "agent, and 2,048 agents in half the time of one CleanRL agent, on a GPU.",
    config="train/ppo_cartpole",  # CleanRL's settings
    agents=(1, 8, 64, 256),
    columns=("return, last tenth",),
    measure=lambda rows, measures: (float(np.nanmean(measures["final_return"])),),
    theirs=pytorch,
    needs="torch",
)
