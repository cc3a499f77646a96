"""Learning curves on this machine, to compare a GPU with a CPU and TF32 with float32.

python -m experiments.benchmarks.curves --agents 1024 --save docs/results/curves.json
JAX_PLATFORMS=cpu python -m experiments.benchmarks.curves ppo --agents 256

By default, a GPU rounds both inputs of every float32 product to TF32, which has 10 bits of
mantissa, and our kernels compute the networks. With products of full float32, XLA computes them.
So equal curves are evidence for both, the kernels and TF32.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from metaevo.evolution import devices

devices.setup()

import jax
import numpy as np

from experiments.benchmarks.machine import save
from experiments.benchmarks.tables import Table
from experiments.benchmarks.tasks import Trainee, make_ppo
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.statistics import FloatArray
from purerl import dqn, envs, ppo
from purerl.parts import losses


def _ppo(total_timesteps: int, recurrent_size: int = 0) -> Trainee:
    env, env_params = envs.make("CartPole-v1")
    config = ppo.Config(total_timesteps, recurrent_size=recurrent_size)
    return ppo.PPO(config, env, value_loss=losses.clipped_squared), env_params, ppo.Hyperparams()


def _dqn() -> Trainee:
    env, env_params = envs.make("CartPole-v1")
    return dqn.DQN(dqn.Config(100_000), env), env_params, dqn.Hyperparams()


TRAININGS: Mapping[str, Callable[[], Trainee]] = {
    "ppo": partial(_ppo, 249_856),
    "ppo-recurrent": partial(_ppo, 149_504, recurrent_size=32),
    "dqn": _dqn,
    "ppo-breakout": partial(make_ppo, "Breakout-MinAtar", 491_520, 10_000_000),
}
"""By name. All but the last on CartPole."""
TENTHS = (2, 5, 10)
"""The tenths of a training whose mean returns are printed."""
PRECISIONS = {"cpu": ("float32",), "gpu": ("tensorfloat32", "float32")}
"""Of products, by platform; the first is the default."""


def curve(name: str, agents: int) -> FloatArray:
    """Return the mean return in each tenth of a training [agents, 10]."""
    learner, env_params, hyperparams = TRAININGS[name]()

    def train(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        sums = learner.train(key, hyperparams, None, env_params).episodes
        return sums.returns, sums.episodes

    chunk_size = 16 if jax.default_backend() == "cpu" else agents
    trained = devices.RowMap(train, chunk_size=chunk_size)(
        jax.random.split(jax.random.key(7), agents)
    )
    returns, episodes = (np.asarray(each, np.float64) for each in trained)
    end = returns.shape[1] // 10 * 10
    returns, episodes = (x[:, :end].reshape(agents, 10, -1).sum(2) for x in (returns, episodes))
    return returns / episodes


@exit_on_config_error()
def main(argv: Sequence[str] | None = None) -> int:
    """Train the agents and print a row for each training and precision."""
    parser = Parser("curves", __doc__)
    parser.prog = "experiments.benchmarks.curves"
    names = ", ".join(TRAININGS)
    parser.add_argument("trainings", nargs="*", metavar="TRAINING", help=names)
    parser.add_argument("--agents", type=int, default=256, help="of each row; default: 256")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the table there")
    args = parser.parse_args(argv)
    if unknown := set(args.trainings) - set(TRAININGS):
        raise ConfigError(f"unknown training {', '.join(sorted(unknown))}; known: {names}")
    if args.agents < 2:
        raise ConfigError(f"--agents {args.agents}: must be at least 2")
    platform = jax.default_backend()
    columns = (f"return in tenth {tenth} of the training" for tenth in TENTHS)
    table = Table("training", "platform", "products", "agents", *columns)
    for name in args.trainings or TRAININGS:
        for precision in PRECISIONS[platform]:
            default = precision == PRECISIONS[platform][0]
            with jax.default_matmul_precision(None if default else precision):
                found = curve(name, args.agents)
            texts = (_mean(found[:, tenth - 1]) for tenth in TENTHS)
            table.row(name, platform, precision, args.agents, *texts)
    if args.save is not None:
        save(args.save, {"Mean returns, with their 95% intervals": table})
    return 0


def _mean(values: FloatArray) -> str:
    """Write a mean and its interval, 1.96 standard errors to each side."""
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.1f} [{values.mean() - half:.1f}, {values.mean() + half:.1f}]"


if __name__ == "__main__":
    sys.exit(main())
