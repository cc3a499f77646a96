"""Meta-gradients beside evolution: what each knows of the way uphill, and what each makes of it.

python -m experiments.benchmarks.meta_gradients estimates [--agents 128] [--save FILE]
    [--figure FILE]
python -m experiments.benchmarks.meta_gradients compute [--seconds 8] [--seeds 3] [--save FILE]

PPO on CartPole-v1, with the components and settings of configs/evolve_*/ppo.yaml at their start.

**Estimates.** Every agent gives a gradient of its own, through windows of some updates or the whole
training. Noise is how many agents it takes until the mean is as long as its standard error. Bias
has two parts. Truncation: the cosine to the gradient through the whole training. The objective,
too, is not the fitness: so steps of several lengths are made in the direction of the mean. The best
one is chosen by some fresh agents, and what it adds to the fitness is measured by others. The
direction that evolution takes of as many frames (antithetic pairs) stands beside it.

**Compute.** Open_ES and meta_gradient, at two learning rates, evolve for as many CPU seconds,
compilation not counted, on short trainings, and for more on longer ones, as many times as they are
longer; then the means train fresh agents.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from metaevo.evolution import devices

if __name__ == "__main__":
    devices.setup(1)  # before evosax starts JAX
from experiments.benchmarks.machine import save
from experiments.benchmarks.meta_gradient_tables import (
    draw,
    table_of_estimates,
    table_of_scores,
)
from experiments.benchmarks.processes import progress
from metaevo.config import from_dict, load_yaml, merge
from metaevo.evolution.evolution import Evolution, EvolutionConfig
from metaevo.evolution.meta_gradient import LARGEST
from metaevo.evolution.problem import MetaProblem, ascend
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import experiment_class

CONFIGS = Path(__file__).parents[2] / "configs"
COMPONENTS = "value_loss", "drift", "optimizer"
SHORT, LONG = 4_096, 8_192
"""Environment steps of a training: 32 and 64 updates."""
CHUNK = 16
"""Agents that are trained at once."""
SIGMA = 0.1
"""Of evolution's perturbations, a number of meta-parameters."""
STEPS = 0.0003, 0.002, 0.01, 0.05
"""That are tried in a direction: the root of the mean square of a number's change."""
STRATEGIES = {
    "Open_ES": StrategyConfig("Open_ES", 64, sigma=SIGMA, learning_rate=0.05),
    **{
        f"meta_gradient, {rate:g}": StrategyConfig(
            "meta_gradient", CHUNK, learning_rate=rate, settings={"window": 4}
        )
        for rate in (0.05, 0.005)
    },
}
"""By names; with the learning rate, where there are several."""


class Vectors(NamedTuple):
    """Estimates of one gradient, of a key each."""

    raw: np.ndarray
    """[keys, numbers]"""

    @property
    def norms(self) -> np.ndarray:
        """Of each [keys]."""
        return np.linalg.norm(self.raw, axis=1)

    @property
    def clipped(self) -> np.ndarray:
        """As the strategy uses them: none is longer than `LARGEST`, and those not finite are 0."""
        norms = self.norms[:, None]
        kept = np.isfinite(norms)
        factor = np.where(kept, np.minimum(1.0, LARGEST / np.maximum(norms, 1e-12)), 0.0)
        return np.where(kept, self.raw, 0.0) * factor


def squared_mean(vectors: np.ndarray) -> float:
    """Return the squared length of the expected vector, without what noise adds to a mean's.

    Args:
        vectors: [keys, numbers], independent.
    """
    count = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    return float(
        (total @ total - np.sum(np.square(vectors, dtype=np.float64))) / count / (count - 1)
    )


def noise(vectors: np.ndarray) -> float:
    """Return how many keys it takes until the mean is as long as its standard error.

    Infinite, if the mean is not told apart from zero.
    """
    variance = np.sum(np.var(vectors, axis=0, ddof=1, dtype=np.float64))
    signal = squared_mean(vectors)
    return float(variance / signal) if signal > 0 else float("inf")


def cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """Return the cosine of two expected vectors, estimated on the same keys.

    Args:
        vectors: [keys, numbers].
        others: [keys, numbers], rows of the same keys.
    """
    count = len(vectors)
    both = vectors.sum(axis=0, dtype=np.float64) @ others.sum(axis=0, dtype=np.float64)
    own = np.sum(vectors.astype(np.float64) * others)  # pairs of different keys are what counts
    length = squared_mean(vectors) * squared_mean(others)
    if squared_mean(vectors) <= 0 or squared_mean(others) <= 0:
        return float("nan")
    return float((both - own) / count / (count - 1) / length**0.5)


class Landscape:
    """The fitness around one point of a problem's search space."""

    def __init__(self, problem: MetaProblem, start: Any):
        """Bind a problem and the meta-parameters at the point."""
        self.problem = problem
        self.start, self.unravel = ravel_pytree(start)
        self._fitness = jax.jit(lambda keys, points: self._mapped(self._one, keys, points))

    def _one(self, key: jax.Array, point: jax.Array) -> jax.Array:
        return self.problem.evaluate(key, self.unravel(point)).fitness

    def _mapped(self, function: Callable, *arguments: jax.Array) -> Any:
        return jax.lax.map(lambda each: function(*each), arguments, batch_size=CHUNK)

    def fitness(self, keys: jax.Array, points: jax.Array) -> np.ndarray:
        """Return the fitness [keys] of points [keys, numbers]; a diverged agent's is 0."""
        found = np.asarray(self._fitness(keys, points))
        return np.where(np.isfinite(found), found, 0.0)

    def gradients(self, keys: jax.Array, window: int) -> Vectors:
        """Return the meta-gradients at the start, one of every key."""

        def gradient(key):
            evaluation = ascend(self.problem, key, self.unravel(self.start), window)
            return ravel_pytree(evaluation.gradient)[0]

        return Vectors(np.asarray(jax.jit(lambda keys: self._mapped(gradient, keys))(keys)))

    def pairs(self, keys: jax.Array) -> np.ndarray:
        """Return evolution's estimate of the gradient, of an antithetic pair for each key."""
        directions = jax.vmap(lambda key: jax.random.normal(key, self.start.shape))(
            jax.vmap(partial(jax.random.fold_in, data=1))(keys)
        )
        above = self.fitness(keys, self.start + SIGMA * directions)
        below = self.fitness(keys, self.start - SIGMA * directions)
        return (above - below)[:, None] / (2 * SIGMA) * np.asarray(directions)

    def gains(self, keys: jax.Array, direction: np.ndarray) -> np.ndarray:
        """Return what steps in a direction add to the fitness [len(STEPS), keys].

        Args:
            keys: of agents.
            direction: [numbers], of any length.
        """
        unit = direction / max(float(np.linalg.norm(direction)), 1e-30)
        count = len(keys)
        here = self.fitness(keys, jnp.tile(self.start, (count, 1)))
        there = [
            self.fitness(keys, jnp.tile(self.start + step * np.sqrt(unit.size) * unit, (count, 1)))
            for step in STEPS
        ]
        return np.stack(there) - here


def problem_of(component: str, total_timesteps: int) -> MetaProblem:
    """Return the problem of a component's preset, with trainings of another length."""
    plain = load_yaml(CONFIGS / f"evolve_{component}" / "ppo.yaml")
    plain = merge(plain, {"train": {"total_timesteps": total_timesteps}})
    return LearnerStudy(from_dict(experiment_class(plain, None), plain)).problem({})


def keys_of(seed: int, purpose: Purpose, stream: int, count: int) -> jax.Array:
    """Return keys that no other stream has."""
    return jax.random.split(jax.random.fold_in(key_for(seed, purpose), stream), count)


def start_of(problem: MetaProblem, seed: int) -> Any:
    """Return where all evolutions of a seed begin."""
    config = EvolutionConfig(generations=1, validation_seeds=0, num_devices=1, chunk_size=CHUNK)
    evolution = Evolution(problem, STRATEGIES["Open_ES"], config, seed=seed)
    return evolution.result(evolution.init())


def estimates(
    landscape: Landscape, windows: Sequence[int], agents: int, tests: int, seed: int
) -> dict[str, Any]:
    """Measure every window's gradient, and evolution's estimate of as many agents.

    Args:
        landscape: around the start.
        windows: of updates; the last is the whole training.
        agents: of each estimate.
        tests: agents that measure what a step gains.
        seed: of the agents.

    Returns:
        `rows`, of each `window` (None: evolution), its `noise`, `cosine` to the last window,
        median `norm`, share of agents that are `clipped`, and `gain` with its `interval` and
        `step`.
    """
    keys = keys_of(seed, Purpose.EVOLUTION, 0, agents)
    fresh = keys_of(seed, Purpose.HELD_OUT, 0, tests)
    at_start = landscape.fitness(fresh, jnp.tile(landscape.start, (tests, 1)))
    found = {window: landscape.gradients(keys, window) for window in windows}
    whole = found[windows[-1]].clipped
    rows = []
    for window, vectors in found.items():
        used = vectors.clipped
        norms = vectors.norms
        rows.append(
            {
                "window": window,
                "noise": noise(used),
                "cosine": cosine(used, whole),
                "norm": float(np.nanmedian(norms)),
                "clipped": float(np.mean(~(norms <= LARGEST))),
                **_gain(landscape, fresh, used.mean(axis=0)),
            }
        )
    pairs = landscape.pairs(keys_of(seed, Purpose.EVOLUTION, 1, agents // 2))
    rows.append(
        {
            "window": None,
            "noise": 2 * noise(pairs),  # a pair is two agents
            "cosine": None,
            "norm": float(np.median(np.linalg.norm(pairs, axis=1))),
            "clipped": None,
            **_gain(landscape, fresh, pairs.mean(axis=0)),
        }
    )
    return {"rows": rows, "numbers": landscape.start.size, "start": float(at_start.mean())}


def _gain(landscape: Landscape, keys: jax.Array, direction: np.ndarray) -> dict[str, Any]:
    """The best step's, chosen by one half of the agents and measured by the other."""
    gains = landscape.gains(keys, direction)
    half = len(keys) // 2
    best = int(np.argmax(gains[:, :half].mean(axis=1)))
    judged = gains[best, half:]
    error = 1.96 * float(judged.std(ddof=1)) / len(judged) ** 0.5
    middle = float(judged.mean())
    return {"gain": middle, "interval": [middle - error, middle + error], "step": STEPS[best]}


def at_equal_compute(
    problem: MetaProblem, seconds: float, seeds: int, tests: int
) -> dict[str, dict[str, Any]]:
    """Evolve with both strategies for as many CPU seconds.

    Returns:
        by strategy: `scores` [seeds] of the means over fresh agents, `generations`, CPU `seconds`
        and agents `trained` by an evolution; and `scores` of the `start`.
    """
    score = jax.jit(
        lambda keys, point: jax.lax.map(
            lambda key: problem.evaluate(key, point).fitness, keys, batch_size=CHUNK
        )
    )

    def tested(seed: int, meta_params: Any) -> float:
        found = np.asarray(score(keys_of(seed, Purpose.HELD_OUT, 1, tests), meta_params))
        return float(np.mean(np.where(np.isfinite(found), found, 0.0)))

    config = EvolutionConfig(generations=10**6, validation_seeds=0, num_devices=1, chunk_size=CHUNK)
    starts: list[float] = []
    result: dict[str, dict[str, Any]] = {"start": {"scores": starts}}
    for name, strategy in STRATEGIES.items():
        evolution = Evolution(problem, strategy, config, seed=0)
        evolution.compile()
        scores, generations, used = [], [], []
        for seed in range(seeds):
            own = evolution.with_settings(seed, strategy)
            state, done, spent = own.init(), 0, 0.0
            if len(starts) < seeds:
                starts.append(tested(seed, own.result(state)))
            while not done or spent + 0.5 * spent / done < seconds:
                before = time.process_time()
                state, _ = own.run_block(state, 1)
                spent += time.process_time() - before
                done += 1
            scores.append(tested(seed, own.result(state)))
            generations.append(done)
            used.append(spent)
            progress(f"{name}, seed {seed}: {starts[seed]:.1f} -> {scores[-1]:.1f} in {done}")
        trained = float(np.mean(generations)) * evolution.evaluations
        result[name] = {
            "scores": scores,
            "generations": generations,
            "seconds": used,
            "trained": trained,
        }
    return result


def main() -> None:
    """Measure, print, draw and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("what", choices=("estimates", "compute"))
    parser.add_argument("--components", nargs="+", choices=COMPONENTS, default=list(COMPONENTS))
    parser.add_argument("--agents", type=int, default=128, help="of an estimate; default: 128")
    parser.add_argument(
        "--windows", type=int, nargs="+", default=[1, 4, 16, 32], help="default: 1 4 16 32"
    )
    parser.add_argument("--tests", type=int, default=128, help="fresh agents; default: 128")
    parser.add_argument(
        "--seconds", type=float, default=8.0,
        help="CPU seconds of an evolution with short trainings; default: 8",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[SHORT, LONG],
        help=f"of a training (compute); default: {SHORT} {LONG}",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, help="evolutions of each; default: 3")
    parser.add_argument(
        "--save", type=Path, help="for a page: docs/results/meta_gradient_WHAT.json"
    )
    parser.add_argument("--figure", type=Path, help="docs/images/meta_gradients.png")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    before = time.process_time()
    if options.what == "estimates":
        for component in options.components:
            problem = problem_of(component, SHORT)
            landscape = Landscape(problem, start_of(problem, 0))
            found[component] = estimates(
                landscape, options.windows, options.agents, options.tests, 0
            )
            progress(json.dumps(found))
    else:
        for steps, component in itertools.product(options.steps, options.components):
            seconds = options.seconds * steps / SHORT
            found[f"{component}, {steps:,}"] = at_equal_compute(
                problem_of(component, steps), seconds, options.seeds, options.tests
            )
            progress(json.dumps(found))
    flags = f"--tests {options.tests} "
    if options.what == "estimates":
        table = table_of_estimates(found)
        flags += f"--agents {options.agents} --windows {' '.join(map(str, options.windows))}"
        if options.figure is not None:
            draw(found, options.figure)
    else:
        table = table_of_scores(found)
        flags += f"--seconds {options.seconds:g} --seeds {options.seeds} "
        flags += f"--steps {' '.join(map(str, options.steps))}"
    spent = time.process_time() - before
    print(f"\n{spent:,.0f} CPU seconds")
    if options.save is not None:
        command = f"python -m experiments.benchmarks.meta_gradients {options.what} {flags}"
        note = f"{spent:,.0f} CPU seconds in all, compilation included"
        save(options.save, command, [table.saved(options.what)], note)


if __name__ == "__main__":
    main()
