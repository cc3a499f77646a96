"""Train one agent and print how it learns: `python -m purerl ppo CartPole-v1`."""

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from purerl import envs
from purerl.learners import LEARNERS

ROWS = 10


def main(argv: Sequence[str] | None = None) -> None:
    """Train, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m purerl", description=__doc__)
    parser.add_argument("learner", choices=LEARNERS)
    parser.add_argument("env", nargs="?", help="default: CartPole-v1, of q_learning GridWorld")
    parser.add_argument("--steps", type=int, help="of the environment; default: the learner's")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    try:
        entry = LEARNERS[args.learner]
        name = args.env or ("GridWorld" if entry.observations == "index" else "CartPole-v1")
        env, env_params = envs.make(name, observations=entry.observations)
        sizes: dict[str, Any] = {} if args.steps is None else {"total_timesteps": args.steps}
        learner = entry.make(entry.config(**sizes), env)
        train = jax.jit(learner.train)
        arguments = jax.random.key(args.seed), entry.hyperparams(), None, env_params
        compiled = train.lower(*arguments).compile()
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    episodes = jax.device_get(compiled(*arguments).episodes)
    print("     steps  episodes  mean return")
    for part in np.array_split(np.arange(learner.config.num_updates), ROWS):
        if len(part):
            steps = (part[-1] + 1) * learner.config.frames_per_update
            count, total = episodes.episodes[part].sum(), episodes.returns[part].sum()
            mean = f"{total / count:.4g}" if count else "-"
            print(f"{steps:>10,}{count:>10,.0f}{mean:>13}")


if __name__ == "__main__":
    main()
