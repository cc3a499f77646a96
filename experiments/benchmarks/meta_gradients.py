"""Meta-gradients and evolution: the quality of their estimates, and their results.

python -m experiments.benchmarks.meta_gradients estimates [--save FILE] [--figure FILE]
python -m experiments.benchmarks.meta_gradients compute [--seconds 8] [--seeds 3] [--save FILE]

PPO on CartPole-v1, with the components and settings of configs/evolve_*/ppo.yaml at their start.

**Estimates.** Every agent gives one gradient, through a window of some updates or through the whole
training. Noise is the number of agents for which the mean is as long as its standard
error. Bias has two parts. Truncation: the cosine to the gradient through the whole training. The
objective differs from the fitness, too: so steps of several lengths are made in the direction of
the mean; some fresh agents choose the best one, and others measure its gain in fitness. Evolution's
direction from as many frames (antithetic pairs) is measured in the same way.

**Compute.** Open_ES and meta_gradient, at two learning rates, evolve for as many CPU seconds,
compilation not counted, on short trainings, and longer on long ones in proportion. Then the means
train fresh agents.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from metaevo.evolution import devices

if __name__ == "__main__":
    devices.setup(1)  # before evosax starts JAX

from experiments.benchmarks.machine import save
from experiments.benchmarks.meta_gradient_results import (
    Estimate,
    Evolved,
    add_scores,
    draw,
    table_of_estimates,
)
from experiments.benchmarks.processes import progress
from experiments.benchmarks.tables import Table
from experiments.benchmarks.tasks import make_problem
from metaevo.evolution.evolution import Evolution, EvolutionConfig
from metaevo.evolution.meta_gradient import LARGEST
from metaevo.evolution.problem import MetaProblem, ascend
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.evolution.strategy import StrategyConfig

COMPONENTS = "value_loss", "drift", "optimizer"
SHORT, LONG = 4_096, 8_192
"""Environment steps of a training run: 32 and 64 updates."""
CHUNK = 16
"""Number of agents that train at once."""
SIGMA = 0.1
"""Standard deviation of evolution's perturbations."""
STEPS = 0.0003, 0.002, 0.01, 0.05
"""Step lengths: root mean square of the changes of the numbers."""
STRATEGIES = {
    "Open_ES": StrategyConfig("Open_ES", 64, sigma=SIGMA, learning_rate=0.05),
    **{
        f"meta_gradient, {rate:g}": StrategyConfig(
            "meta_gradient", CHUNK, learning_rate=rate, settings={"window": 4}
        )
        for rate in (0.05, 0.005)
    },
}


class Landscape:
    """The fitness around one point of a problem's search space."""

    def __init__(self, problem: MetaProblem, start: Any):
        """Store a problem and the meta-parameters at the point."""
        self.problem = problem
        self.start, self.unravel = ravel_pytree(start)
        self._fitness = jax.jit(lambda keys, points: self._mapped(self._one, keys, points))

    def _one(self, key: jax.Array, point: jax.Array) -> jax.Array:
        return self.problem.evaluate(key, self.unravel(point)).fitness

    def _mapped(self, function: Callable, *arguments: jax.Array) -> Any:
        return jax.lax.map(lambda each: function(*each), arguments, batch_size=CHUNK)

    def fitness(self, keys: jax.Array, points: jax.Array) -> np.ndarray:
        """Return the fitness [keys] of points [keys, numbers]; 0 for diverged agents."""
        found = np.asarray(self._fitness(keys, points))
        return np.where(np.isfinite(found), found, 0.0)

    def gradients(self, keys: jax.Array, window: int) -> np.ndarray:
        """Return the meta-gradients at the start [keys, numbers]."""

        def gradient(key):
            evaluation = ascend(self.problem, key, self.unravel(self.start), window)
            return ravel_pytree(evaluation.gradient)[0]

        return np.asarray(jax.jit(lambda keys: self._mapped(gradient, keys))(keys))

    def pairs(self, keys: jax.Array) -> np.ndarray:
        """Return evolution's estimate of the gradient, from an antithetic pair for each key."""
        directions = jax.vmap(lambda key: jax.random.normal(key, self.start.shape))(
            jax.vmap(partial(jax.random.fold_in, data=1))(keys)
        )
        above = self.fitness(keys, self.start + SIGMA * directions)
        below = self.fitness(keys, self.start - SIGMA * directions)
        return (above - below)[:, None] / (2 * SIGMA) * np.asarray(directions)

    def gains(self, keys: jax.Array, direction: np.ndarray) -> np.ndarray:
        """Return the gains in fitness of steps in a direction [numbers], [len(STEPS), keys]."""
        unit = direction / max(float(np.linalg.norm(direction)), 1e-30)
        count = len(keys)
        here = self.fitness(keys, jnp.tile(self.start, (count, 1)))
        there = [
            self.fitness(keys, jnp.tile(self.start + step * np.sqrt(unit.size) * unit, (count, 1)))
            for step in STEPS
        ]
        return np.stack(there) - here


# --- Many estimates of one gradient ---------------------------------------------------------------


def clipped(gradients: np.ndarray) -> np.ndarray:
    """Return gradients [keys, numbers] as the strategy uses them.

    Lengths are clipped to `LARGEST`, and non-finite gradients become 0.
    """
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    finite = np.isfinite(norms)
    factor = np.where(finite, np.minimum(1.0, LARGEST / np.maximum(norms, 1e-12)), 0.0)
    return np.where(finite, gradients, 0.0) * factor


def squared_mean(vectors: np.ndarray) -> float:
    """Return the squared length of the mean of estimates [keys, numbers], without noise's bias."""
    return _product(vectors, vectors)


def noise(vectors: np.ndarray) -> float:
    """Return the number of keys at which the mean is as long as its standard error.

    Infinite if the mean cannot be distinguished from zero.
    """
    variance = np.sum(np.var(vectors, axis=0, ddof=1, dtype=np.float64))
    signal = squared_mean(vectors)
    return float(variance / signal) if signal > 0 else float("inf")


def cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """Return the cosine of two mean vectors, from estimates on the same keys [keys, numbers]."""
    squares = squared_mean(vectors), squared_mean(others)
    if min(squares) <= 0:
        return float("nan")
    return _product(vectors, others) / (squares[0] * squares[1]) ** 0.5


def _product(vectors: np.ndarray, others: np.ndarray) -> float:
    """Return the dot product of two means: of pairs of different keys, so that noise cancels."""
    count = len(vectors)
    both = vectors.sum(axis=0, dtype=np.float64) @ others.sum(axis=0, dtype=np.float64)
    own = np.sum(vectors.astype(np.float64) * others)
    return float((both - own) / count / (count - 1))


# --- The two measurements -------------------------------------------------------------------------


def problem_of(component: str, total_timesteps: int) -> MetaProblem:
    """Return the problem of a component's preset, with a different length of training."""
    changes = {"train": {"total_timesteps": total_timesteps}}
    return make_problem(f"evolve_{component}/ppo", changes)[0]


def keys_of(seed: int, purpose: Purpose, stream: int, count: int) -> jax.Array:
    """Return the keys of one stream."""
    return jax.random.split(jax.random.fold_in(key_for(seed, purpose), stream), count)


def start_of(problem: MetaProblem, seed: int) -> Any:
    """Return the meta-parameters with which all evolutions of a seed begin."""
    config = EvolutionConfig(generations=1, validation_seeds=0, num_devices=1, chunk_size=CHUNK)
    evolution = Evolution(problem, STRATEGIES["Open_ES"], config, seed=seed)
    return evolution.result(evolution.init())


def estimates(
    landscape: Landscape, windows: Sequence[int], agents: int, tests: int, seed: int
) -> list[Estimate]:
    """Measure the gradient through each window, then evolution's estimate from as many agents.

    Args:
        landscape: fitness around the start.
        windows: lengths in updates; the last is the whole training.
        agents: number of agents per estimate.
        tests: number of fresh agents that measure the gain of a step.
        seed: seed of the agents.
    """
    keys = keys_of(seed, Purpose.EVOLUTION, 0, agents)
    fresh = keys_of(seed, Purpose.HELD_OUT, 0, tests)
    raw = {window: landscape.gradients(keys, window) for window in windows}
    whole = clipped(raw[windows[-1]])
    found = []
    for window, gradients in raw.items():
        used, norms = clipped(gradients), np.linalg.norm(gradients, axis=1)
        found.append(
            Estimate(
                window, noise(used), cosine(used, whole), float(np.nanmedian(norms)),
                float(np.mean(~(norms <= LARGEST))), *_gain(landscape, fresh, used.mean(axis=0)),
            )
        )  # fmt: skip
    pairs = landscape.pairs(keys_of(seed, Purpose.EVOLUTION, 1, agents // 2))
    norm, nan = float(np.median(np.linalg.norm(pairs, axis=1))), float("nan")
    gain = _gain(landscape, fresh, pairs.mean(axis=0))
    # A pair consists of two agents.
    return [*found, Estimate(None, 2 * noise(pairs), nan, norm, nan, *gain)]


def _gain(
    landscape: Landscape, keys: jax.Array, direction: np.ndarray
) -> tuple[float, float, float]:
    """Return the best step for half of the agents, and its gain and error for the other half."""
    gains = landscape.gains(keys, direction)
    half = len(keys) // 2
    best = int(np.argmax(gains[:, :half].mean(axis=1)))
    judged = gains[best, half:]
    error = 1.96 * float(judged.std(ddof=1)) / len(judged) ** 0.5
    return STEPS[best], float(judged.mean()), error


def at_equal_compute(
    problem: MetaProblem, seconds: float, seeds: int, tests: int
) -> tuple[list[float], dict[str, Evolved]]:
    """Evolve with each strategy for as many CPU seconds; return the scores of starts too."""
    score = jax.jit(
        lambda keys, point: jax.lax.map(
            lambda key: problem.evaluate(key, point).fitness, keys, batch_size=CHUNK
        )
    )

    def tested(seed: int, meta_params: Any) -> float:
        found = np.asarray(score(keys_of(seed, Purpose.HELD_OUT, 1, tests), meta_params))
        return float(np.mean(np.where(np.isfinite(found), found, 0.0)))

    config = EvolutionConfig(generations=10**6, validation_seeds=0, num_devices=1, chunk_size=CHUNK)
    starts = [tested(seed, start_of(problem, seed)) for seed in range(seeds)]
    result = {}
    for name, strategy in STRATEGIES.items():
        evolution = Evolution(problem, strategy, config, seed=0)
        evolution.compile()
        scores, generations = [], 0
        for seed in range(seeds):
            own = evolution.with_settings(seed, strategy)
            state, done, spent = own.init(), 0, 0.0
            while not done or spent + 0.5 * spent / done < seconds:
                before = time.process_time()
                state, _ = own.run_block(state, 1)
                spent += time.process_time() - before
                done += 1
            scores.append(tested(seed, own.result(state)))
            generations += done
            progress(f"{name}, seed {seed}: {starts[seed]:.1f} -> {scores[-1]:.1f} in {done}")
        result[name] = Evolved(scores, generations / seeds * evolution.evaluations)
    return starts, result


def main() -> None:
    """Measure, print, draw and save."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("what", choices=("estimates", "compute"))
    add("--components", nargs="+", choices=COMPONENTS, default=COMPONENTS, help="of both")
    add("--agents", type=int, default=128, help="of an estimate")
    add("--windows", type=int, nargs="+", default=[1, 4, 16, 32], help="of estimates, in updates")
    add("--tests", type=int, default=128, help="fresh agents")
    add("--seconds", type=float, default=8.0, help="CPU seconds of an evolution, short trainings")
    add("--steps", type=int, nargs="+", default=[SHORT, LONG], help="of a training (compute)")
    add("--seeds", type=int, default=3, help="evolutions of each")
    add("--save", type=Path, help="for a page: docs/results/meta_gradient_WHAT.json")
    add("--figure", type=Path, help="docs/images/meta_gradients.png")
    options = parser.parse_args()
    before = time.process_time()
    if options.what == "estimates":
        found = {}
        for component in options.components:
            problem = problem_of(component, SHORT)
            landscape = Landscape(problem, start_of(problem, 0))
            found[component] = estimates(
                landscape, options.windows, options.agents, options.tests, 0
            )
            progress(component)
        table = table_of_estimates(found)
        if options.figure is not None:
            draw(found, options.figure)
    else:
        first, *others = STRATEGIES
        table = Table(
            "component, steps", "start", *(f"{name} (trainings)" for name in STRATEGIES),
            *(f"{name}, from {first} [95% over seeds]" for name in others),
        )  # fmt: skip
        for steps, component in itertools.product(options.steps, options.components):
            seconds = options.seconds * steps / SHORT
            scores = at_equal_compute(
                problem_of(component, steps), seconds, options.seeds, options.tests
            )
            add_scores(table, f"{component.replace('_', ' ')}, {steps:,}", *scores)
    spent = time.process_time() - before
    print(f"\n{spent:,.0f} CPU seconds")
    if options.save is not None:
        note = f"{spent:,.0f} CPU seconds in all, compilation included"
        save(options.save, {options.what: table}, note)


if __name__ == "__main__":
    main()
