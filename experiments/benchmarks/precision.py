"""What TF32 does to learning, measured on a CPU.

python -m experiments.benchmarks.precision --seeds 512 --save docs/results/precision.json

By default, a GPU rounds both inputs of every float32 product to TF32, which has 10 bits of
mantissa, and adds in float32. Here they are rounded in the same way before the products of a CPU,
in the rollout and in gradients. Agents of both groups have the same keys.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from metaevo.evolution import devices

devices.setup()

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lax.lax import _dot_general_lower
from jax.interpreters import mlir

import metaevo
from experiments.benchmarks.machine import save
from experiments.benchmarks.tables import Table
from experiments.benchmarks.tasks import make_ppo
from metaevo.config import ConfigError, exit_on_config_error
from metaevo.statistics import Estimate, FloatArray, estimate, pooled_iqm

CASES: dict[str, tuple[int, str | None]] = {
    "65,536 steps, Adam": (65_536, None),
    "8,192 steps, zoo:ppo-optimizer": (8_192, "zoo:ppo-optimizer"),
}
"""Environment steps of an agent, and a learned optimizer, or Adam."""
CHUNK = 16
"""Agents that are trained side by side."""


@contextmanager
def rounded_products() -> Iterator[None]:
    """Round the inputs of all float32 products that are compiled in this context."""

    def rounded(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=10)

    def lower(ctx: Any, *inputs: Any, **params: Any) -> Any:
        assert all(each.dtype == jnp.float32 for each in ctx.avals_in), ctx.avals_in
        to_tf32 = mlir.lower_fun(rounded, multiple_results=False)
        in_tf32 = [
            to_tf32(ctx.replace(avals_in=[aval], avals_out=[aval]), each)[0]
            for aval, each in zip(ctx.avals_in, inputs, strict=True)
        ]
        return usual(ctx, *in_tf32, **params)

    usual = partial(_dot_general_lower, platform="cpu")
    mlir.register_lowering(jax.lax.dot_general_p, lower, platform="cpu")
    jax.clear_caches()
    yield
    mlir.register_lowering(jax.lax.dot_general_p, usual, platform="cpu")
    jax.clear_caches()


def scores(case: str, seeds: int) -> FloatArray:
    """Return the mean return of all episodes of a training, for each of so many agents."""
    frames, optimizer = CASES[case]
    learner, env_params, hyperparams = make_ppo("CartPole-v1", frames, frames)
    meta_params: Any = None
    if optimizer is not None:
        make_optimizer, meta_params = metaevo.load(optimizer)
        learner = replace(learner, make_optimizer=make_optimizer)

    def train(key: jax.Array) -> jax.Array:
        sums = learner.train(key, hyperparams, meta_params, env_params).episodes
        return jnp.sum(sums.returns) / jnp.sum(sums.episodes)

    rows = devices.RowMap(train, chunk_size=CHUNK)
    return np.asarray(rows(jax.random.split(jax.random.key(0), seeds)))


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Train with and without rounding, and print a row for each case."""
    parser = argparse.ArgumentParser(prog="precision", description=__doc__)
    parser.add_argument("--seeds", type=int, default=512, help="agents of each row")
    parser.add_argument("--save", type=Path, help="write the table there, for a page")
    args = parser.parse_args(argv)
    if args.seeds < 1:
        raise ConfigError(f"--seeds {args.seeds}: must be at least 1")
    table = Table("training of PPO on CartPole", "float32", "TF32", "difference")
    for case in CASES:
        exact = scores(case, args.seeds)
        with rounded_products():
            rounded = scores(case, args.seeds)
        assert not np.array_equal(exact, rounded), "the inputs were not rounded"
        table.row(
            case,
            *map(text, (estimate([exact]), estimate([rounded]))),
            text(estimate([exact, rounded], difference)),
        )
    if args.save is not None:
        save(args.save, {"Mean return of all episodes": table}, f"{args.seeds} agents each.")
    return 0


def difference(samples: list[FloatArray]) -> FloatArray:
    """The interquartile mean of the second group minus that of the first [resamples]."""
    exact, rounded = samples
    return pooled_iqm([rounded]) - pooled_iqm([exact])


def text(found: Estimate) -> str:
    """Write an estimate with its interval."""
    low, high = found.interval
    return f"{found.value:.1f} [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
