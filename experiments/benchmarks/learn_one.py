"""Train PPO with some seeds: `python learn_one.py TASK STEPS SEEDS`, with packages on PYTHONPATH.

A script of its own that uses what has been there since the first version, so that it also runs with
another commit's packages. Prints a line of JSON: the scores of all seeds.
"""

import json
import sys
from typing import Any

from metaevo import devices

devices.setup(num_devices=1)

import jax
import numpy as np

from purerl import envs, ppo

CHUNK = 8
"""Seeds that are trained side by side: those of Breakout take a gigabyte."""


def main() -> None:
    """Train, and print the mean returns of episodes that ended in three parts of training."""
    task, steps, seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if task == "CartPole-v1":  # CleanRL's settings
        env, env_params = envs.make(task)
        config, hyperparams = ppo.Config(steps), ppo.Hyperparams()
    else:  # PureJaxRL's
        env, env_params = envs.make(task, observations="flat")
        config = ppo.Config(steps, num_envs=64, num_steps=128, num_minibatches=8, activation="relu")
        hyperparams = ppo.Hyperparams(learning_rate=5e-3)
    losses: Any = vars(ppo)["losses"]  # wherever the commit has them
    train = ppo.make_train(config, env, value_loss=losses.clipped_squared)
    compiled = jax.jit(jax.vmap(train, in_axes=(0, None, None, None)))
    parts = []
    for first in range(0, seeds, CHUNK):
        keys = jax.vmap(jax.random.key)(np.arange(first, min(first + CHUNK, seeds)))
        parts.append(jax.device_get(compiled(keys, hyperparams, None, env_params).episodes))
    episodes = np.concatenate([part.episodes for part in parts])  # [seeds, updates]
    returns = np.concatenate([part.returns for part in parts])
    tenth, half = max(config.num_updates // 10, 2), config.num_updates // 2
    spans = {
        "whole training": slice(None),
        "around the middle": slice(half - tenth // 2, half + tenth // 2),
        "last tenth": slice(-tenth, None),
    }
    scores = {
        name: (returns[:, span].sum(1) / episodes[:, span].sum(1)).tolist()
        for name, span in spans.items()
    }
    print(json.dumps({"scores": scores, "package": ppo.__file__}), flush=True)


if __name__ == "__main__":
    main()
