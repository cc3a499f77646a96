"""Evolution strategies at equal frames on a cheap problem.

python -m experiments.benchmarks.strategies [--seeds 8] [--generations 15 60] [--save FILE]

Tabular Q-learning's value loss of configs/evolve_value_loss/q_learning.yaml, 33 numbers: agents of
5,000 steps on GridWorld 8 x 8, or on two such tasks with cells that slip seldom and often. Every
row of a table trains the same number of agents: 64 candidates per generation, one agent each on
every task. Scores are means over fresh agents, of a generation's mean and, at the end, of the
average over the last third of the means. Prints tables, and writes them for
docs/explanation/strategies.md.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import devices

if __name__ == "__main__":
    devices.setup(1)  # before evosax starts JAX
from experiments.benchmarks.machine import save
from experiments.benchmarks.processes import progress
from experiments.benchmarks.tables import Table
from metaevo import parts, statistics
from metaevo.evolution import strategies
from metaevo.evolution.across_tasks import with_worst_for_failed
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.evolution.strategy import Strategy, StrategyConfig
from metaevo.reports.numbers import estimate
from purerl import envs, q_learning
from purerl.parts import losses

POPULATION, STEPS = 64, 5_000
SIGMAS = 0.1, 0.3
SLIPS = 0.1, 0.4
"""Probabilities of the two tasks; 0.2 for the single task."""
TEST_AGENTS = 128
"""Of every result, on each task."""
HYPERPARAMS = q_learning.Hyperparams(learning_rate=0.2, gamma=0.95, epsilon_start=0.0)
LOSS = parts.ValueLossNetwork(
    (8,), inputs=("error", "signed_log_error"), form="additive", start="squared"
)


class Variant(NamedTuple):
    """A way to evolve."""

    name: str
    algorithm: str = "Open_ES"
    own_keys: bool = False
    """use a key for each antithetic pair instead of one key for the whole generation"""
    one_task: bool = False
    """train every pair on one task only, with twice as many agents"""
    rank: Callable[[jax.Array], jax.Array] | None = None
    """maps scores [tasks, candidates] to the fitness that the strategy uses without shaping"""
    learning_rate: float = 0.05
    """of the mean, if the algorithm has an optimizer"""


def within_pairs(scores: jax.Array) -> jax.Array:
    """1/2 for the better candidate of a pair, -1/2 for the other, summed over the tasks."""
    first, second = jnp.split(scores, 2, axis=1)
    sign = 0.5 * jnp.sign(first - second)
    return jnp.sum(jnp.concatenate([sign, -sign], axis=1), axis=0)


def differences(scores: jax.Array) -> jax.Array:
    """Ranks of the differences from the mean of the pair."""
    first, second = jnp.split(scores, 2, axis=1)
    half = 0.5 * (first - second)
    return ranks(jnp.concatenate([half, -half], axis=1))


def ranks(scores: jax.Array) -> jax.Array:
    """Centred ranks within each task, summed over the tasks."""
    order = jnp.argsort(jnp.argsort(scores, axis=1), axis=1)
    return jnp.sum(order / (scores.shape[1] - 1) - 0.5, axis=0)


SINGLE = [
    Variant("Open_ES"),
    Variant("Open_ES, learning rate 0.2", learning_rate=0.2),
    Variant("Open_ES, own keys and ranks within pairs", own_keys=True, rank=within_pairs),
    Variant("Open_ES, own keys and ranks of differences", own_keys=True, rank=differences),
    *(Variant(name, name) for name in ("PGPE", "SNES", "CR_FM_NES", "Sep_CMA_ES", "CMA_ES")),
]
SEVERAL = [
    Variant("mean of normalised scores"),
    Variant("ranks within tasks", rank=ranks),
    Variant("a task a pair, ranks within pairs", own_keys=True, one_task=True, rank=within_pairs),
]


class Scores:
    """Trains agents: one compiled program for batches of one size."""

    def __init__(self, rows: int):
        """Compile for a fixed number of agents."""
        env, self._params = envs.make("GridWorld", observations="index", size=8)
        self._rows = rows
        config = q_learning.Config(STEPS, 100)
        learned = q_learning.make_train(config, env, value_loss=LOSS.apply)
        squared = q_learning.make_train(config, env, value_loss=losses.squared)
        self._learned = jax.jit(jax.vmap(lambda *row: self._train(learned, *row)))
        self._squared = jax.jit(jax.vmap(lambda *row: self._train(squared, *row)))
        self.agents = 0

    def _train(self, train, key, slip, hyperparams, meta_params):
        env_params = self._params.replace(slip_probability=slip)
        return jnp.sum(train(key, hyperparams, meta_params, env_params).episodes.rewards)

    def __call__(self, keys: jax.Array, slips: jax.Array, meta_params: Any) -> jax.Array:
        """Return the reward that each agent earned while it learned [rows]."""
        hyperparams = jax.tree.map(lambda x: jnp.full(self._rows, x), HYPERPARAMS)
        self.agents += self._rows
        return self._learned(keys, slips, hyperparams, meta_params)

    def of_squared_error(self, slip: float) -> tuple[float, float]:
        """Return the mean scores of random play and of squared error on a task."""
        keys = jax.random.split(key_for(0, Purpose.NORMALISATION), self._rows)
        found = []
        for each in (HYPERPARAMS.random_play(), HYPERPARAMS):
            hyperparams = jax.tree.map(lambda x: jnp.full(self._rows, x), each)
            slips = jnp.full(self._rows, slip)
            found.append(float(jnp.mean(self._squared(keys, slips, hyperparams, None))))
        return found[0], found[1]


def evolve(
    variant: Variant,
    score: Scores,
    slips: tuple[float, ...],
    bounds: list[tuple[float, float]],
    seeds: int,
    generations: list[int],
) -> np.ndarray:
    """Evolve with all seeds and sigmas in parallel.

    Returns:
        Scores [len(generations) + 1, sigmas, seeds] of the means after each number of generations,
        and of the average of the last third: means over tasks, normalised if there are several.
    """
    runs = len(SIGMAS) * seeds
    config = StrategyConfig(
        variant.algorithm,
        POPULATION,
        fitness_shaping="auto" if variant.rank is None else "identity",
    )
    example = LOSS.init(jax.random.key(0))
    keys = jnp.tile(jax.vmap(lambda seed: key_for(seed, Purpose.EVOLUTION))(jnp.arange(seeds)), 2)
    sigmas = jnp.repeat(jnp.float32(SIGMAS), seeds)
    low, high = jnp.array(bounds).T[:, :, None]

    def strategy(sigma: jax.Array) -> Strategy:
        rate = variant.learning_rate
        return strategies.make(config, example, sigma=sigma, learning_rate=rate)

    def start(run):
        key, sigma = run
        return strategy(sigma).init(key, LOSS.init)

    def ask(run):
        key, sigma, state, generation = run
        ask_key, train_key = jax.random.split(jax.random.fold_in(key, generation))
        population, state = strategy(sigma).ask(ask_key, state)
        pair = jnp.arange(POPULATION) % (POPULATION // 2)
        luck = pair if variant.own_keys else jnp.zeros_like(pair)
        task = jnp.arange(len(slips))[:, None] * jnp.ones_like(pair)
        if variant.one_task:  # two agents each on the task that the generation gives the pair
            luck, task = luck + POPULATION * task, (pair + generation) % 2 * jnp.ones_like(task)
        keys = jax.vmap(jax.vmap(lambda i: jax.random.fold_in(train_key, i)))(
            jnp.broadcast_to(luck, task.shape)
        )
        return population, state, keys, jnp.array(slips)[task]

    def tell(run):
        sigma, population, state, scores = run
        scores = (scores - low) / (high - low)
        if variant.one_task:
            scores = jnp.mean(scores, axis=0, keepdims=True)
        fitness = jnp.mean(scores, axis=0) if variant.rank is None else variant.rank(scores)
        this = strategy(sigma)
        evaluation = Evaluation(with_worst_for_failed(fitness), {})
        state = this.tell(jax.random.key(0), population, evaluation, state)
        return state, this.best(state)

    def over_runs(function):  # one after another: CMA-ES calls LAPACK, which must not be batched
        return jax.jit(lambda *arguments: jax.lax.map(function, arguments))

    ask_all, tell_all = over_runs(ask), over_runs(tell)
    state, means = over_runs(start)(keys, sigmas), []
    for generation in range(max(generations)):
        population, state, rows, where = ask_all(keys, sigmas, state, jnp.full(runs, generation))
        scores = []
        for task in range(len(slips)):
            flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), population)
            found = score(rows[:, task].reshape(-1), where[:, task].reshape(-1), flat)
            scores.append(found.reshape(runs, POPULATION))
        state, mean = tell_all(sigmas, population, state, jnp.stack(scores, axis=1))
        means.append(mean)
    third = means[-(len(means) // 3) :]
    results = [means[each - 1] for each in generations]
    results.append(jax.tree.map(lambda *x: jnp.mean(jnp.stack(x), axis=0), *third))
    judged = np.array([test(score, each, slips, bounds) for each in results])
    return judged.reshape(-1, len(SIGMAS), seeds)


def test(
    score: Scores, means: Any, slips: tuple[float, ...], bounds: list[tuple[float, float]]
) -> np.ndarray:
    """Return the mean score [runs] of each run's result over fresh agents and tasks."""
    runs = len(jax.tree.leaves(means)[0])
    total = np.zeros(runs)
    for slip, (low, high) in zip(slips, bounds, strict=True):
        found = []
        for index in range(-(-TEST_AGENTS // POPULATION)):
            key = jax.random.fold_in(key_for(0, Purpose.HELD_OUT), index)
            keys = jnp.tile(jax.random.split(key, POPULATION), runs)  # the same for all runs
            flat = jax.tree.map(lambda x: jnp.repeat(x, POPULATION, axis=0), means)
            rewards = score(keys, jnp.full(runs * POPULATION, slip), flat)
            found.append(np.asarray(rewards).reshape(runs, POPULATION))
        total += (np.mean(np.concatenate(found, axis=1), axis=1) - low) / (high - low) / len(slips)
    return total


def compare(
    title: str,
    variants: list[Variant],
    score: Scores,
    slips: tuple[float, ...],
    bounds: list[tuple[float, float]],
    options: argparse.Namespace,
) -> Table:
    """Run the variants of a table, and compare each with the first."""
    columns = []
    for each in options.generations:
        columns += [f"{each} generations: IQM [95%] (better sigma)", "against the first"]
    table = Table(title, *columns, "averaged means against the last")
    first: list[np.ndarray] = []
    for variant in variants:
        progress(f"{title}: {variant.name}")
        found = evolve(variant, score, slips, bounds, options.seeds, options.generations)
        cells = []
        for index, scores in enumerate(found[:-1]):
            best = int(np.argmax(np.mean(scores, axis=1)))
            if variant is variants[0]:
                first.append(scores[best])
            against = ""
            if variant is not variants[0]:
                pair = statistics.compare(scores[best], first[index])
                against = estimate(pair.difference, *pair.difference_interval, sign=True)
            cells += [f"{_summary(scores[best])} ({SIGMAS[best]:g})", against]
        table.row(variant.name, *cells, _summary(found[-1][best] - found[-2][best], sign=True))
    return table


def _summary(scores: np.ndarray, *, sign: bool = False) -> str:
    found = statistics.summarise(scores)
    return estimate(found.iqm, *found.interval, sign=sign)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add("--seeds", type=int, default=8, help="evolutions of each; default: 8")
    add("--generations", type=int, nargs="+", default=[15, 60], help="by default 15 and 60")
    add("--save", type=Path, help="for a page: docs/results/strategies.json")
    options = parser.parse_args()
    score = Scores(len(SIGMAS) * options.seeds * POPULATION)
    single = compare("one task", SINGLE, score, (0.2,), [(0.0, 1.0)], options)
    bounds = [score.of_squared_error(slip) for slip in SLIPS]
    several = compare("two tasks", SEVERAL, score, SLIPS, bounds, options)
    print(f"\n{score.agents * STEPS:,} steps")
    if options.save is not None:
        tables = {"one task": single, "two tasks": several}
        save(options.save, tables, f"{options.seeds} evolutions with each sigma")


if __name__ == "__main__":
    main()
