"""PPO in PyTorch with Gymnasium's environments: the reference that compiled PPO is compared with.

A plain implementation of the algorithm in `purerl.ppo`, in the usual form: NumPy environments
stepped in one process, one network call per step. Like the usual references, it treats the value of
a state after a time limit as zero.
"""

import importlib
import time
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from tqdm import trange

from purerl import ppo

torch: Any = importlib.import_module("torch")  # an extra
nn, Categorical = torch.nn, torch.distributions.Categorical


def train(
    config: ppo.Config, hyperparams: ppo.Hyperparams, vector: VectorEnv, seed: int
) -> tuple[np.ndarray, float]:
    """Train one agent with a discrete action space.

    Args:
        config: as for `purerl.ppo`; without normalised observations and rewards.
        hyperparams: as for `purerl.ppo`; the value loss is the clipped squared error.
        vector: `config.num_envs` environments that reset in the step that ends an episode.
        seed: seed of all random numbers.

    Returns:
        for each update the number of episodes that ended and the sum of their returns
        [2, updates], and the elapsed seconds.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # as every JAX device on a CPU
    spaces: Any = vector.single_observation_space, vector.single_action_space
    obs_size = int(np.prod(spaces[0].shape))
    actor = _perceptron(config, obs_size, int(spaces[1].n), scale=0.01)
    critic = _perceptron(config, obs_size, 1, scale=1.0)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, eps=hyperparams.adam_epsilon)
    steps, count = config.num_steps, config.num_envs
    obs, actions, log_probs, rewards, dones, values = (
        torch.zeros(steps, count, *shape) for shape in ((obs_size,), (), (), (), (), ())
    )
    running, finished = np.zeros(count), np.zeros((2, config.num_updates))
    began = time.perf_counter()
    next_obs = _features(vector.reset(seed=seed)[0])
    for update in trange(config.num_updates, desc="PyTorch", unit="update", leave=False):
        left = 1.0 - update * config.batch_size / config.total_timesteps
        optimizer.param_groups[0]["lr"] = hyperparams.learning_rate * left
        for step in range(steps):
            obs[step] = next_obs
            with torch.no_grad():
                policy = Categorical(logits=actor(next_obs))
                action = policy.sample()
                actions[step], log_probs[step] = action, policy.log_prob(action)
                values[step] = critic(next_obs).squeeze(-1)
            array, reward, terminated, truncated, _ = vector.step(action.numpy())
            done, next_obs = np.logical_or(terminated, truncated), _features(array)
            rewards[step], dones[step] = torch.from_numpy(reward), torch.from_numpy(done)
            running += reward
            finished[:, update] += done.sum(), running[done].sum()
            running[done] = 0.0
        with torch.no_grad():
            last_value = critic(next_obs).squeeze(-1)
        advantages = _advantages(rewards, values, dones, last_value, hyperparams)
        fields = obs, actions, log_probs, values, advantages, advantages + values
        batch = [field.flatten(0, 1) for field in fields]
        for _ in range(config.update_epochs):
            for rows in torch.randperm(config.batch_size).chunk(config.num_minibatches):
                loss = _loss(actor, critic, [field[rows] for field in batch], hyperparams)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, hyperparams.max_grad_norm)
                optimizer.step()
    vector.close()
    return finished, time.perf_counter() - began


def _features(obs: np.ndarray) -> Any:
    return torch.from_numpy(obs.reshape(len(obs), -1).astype(np.float32))  # MinAtar's are bools


def _perceptron(config: ppo.Config, inputs: int, outputs: int, scale: float) -> Any:
    """Return a multilayer perceptron with orthogonal kernels and zero biases, as in `purerl`."""
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[config.activation]
    layers: list[Any] = []
    for before, after in pairwise((inputs, *config.hidden_sizes, outputs)):
        layers += [nn.Linear(before, after), activation()]
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight, scale if layer is layers[-2] else 2.0**0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers[:-1])


def _advantages(rewards: Any, values: Any, dones: Any, last_value: Any, hyperparams: Any) -> Any:
    """Return generalised advantages [T, N] (Schulman et al. 2016)."""
    advantages, trace = torch.zeros_like(rewards), torch.zeros_like(last_value)
    following = last_value
    for step in reversed(range(len(rewards))):
        goes_on = 1.0 - dones[step]
        error = rewards[step] + hyperparams.gamma * goes_on * following - values[step]
        trace = error + hyperparams.gamma * hyperparams.gae_lambda * goes_on * trace
        advantages[step], following = trace, values[step]
    return advantages


def _loss(actor: Any, critic: Any, minibatch: Any, hyperparams: Any) -> Any:
    """Return clipped surrogate, clipped value loss and entropy bonus of a minibatch."""
    obs, action, old_log_prob, old_value, advantage, target = minibatch
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy = Categorical(logits=actor(obs))
    ratio = (policy.log_prob(action) - old_log_prob).exp()
    clip = hyperparams.clip_epsilon
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    value = critic(obs).squeeze(-1)
    clip = hyperparams.value_clip_epsilon
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    value_loss = 0.5 * torch.max((value - target) ** 2, (clipped - target) ** 2).mean()
    entropy = policy.entropy().mean()
    return -surrogate.mean() + hyperparams.vf_coef * value_loss - hyperparams.entropy_coef * entropy
