"""Shared test problems with a known optimum."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution import devices
from metaevo.evolution.evosax import StrategyConfig
from metaevo.evolution.loop import Evolution, EvolutionConfig
from metaevo.evolution.problem import Evaluation, MetaProblem
from metaevo.evolution.strategy import with_worst_for_failed
from metaevo.judging.scores import Scores
from metaevo.parts import ValueLossNetwork
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Task

OPTIMUM = np.array([1.0, -0.5, 0.5, 0.0], np.float32)


class Quadratic(MetaProblem):
    """Fitness is 10 minus the squared distance from OPTIMUM, plus noise; counts its traces."""

    def frames(self, task):
        return 3

    def __init__(self, noise=0.0, spread=0.1):
        self.noise, self.spread, self.traces = noise, spread, 0

    def init(self, key):
        x = self.spread * jax.random.normal(key, (4,))
        return {"weights": x[:3], "bias": x[3]}

    def evaluate(self, key, meta_params, task):
        self.traces += 1
        error = jnp.append(meta_params["weights"], meta_params["bias"]) - OPTIMUM
        fitness = 10.0 - jnp.sum(error * error) + self.noise * jax.random.normal(key)
        return Evaluation(fitness, {"luck": jax.random.uniform(key)})


class KeyOnly(Quadratic):
    """Fitness is luck: the same for all candidates that share a key."""

    def evaluate(self, key, meta_params, task):
        luck = jax.random.uniform(key)
        return Evaluation(luck, {"luck": luck, "luck_squared": luck * luck})


class Failing(Quadratic):
    def evaluate(self, key, meta_params, task):
        failed = jax.random.uniform(key) < 0.5
        fitness = super().evaluate(key, meta_params, task).fitness
        return Evaluation(
            jnp.where(failed, jnp.nan, fitness), {"failed": failed.astype(jnp.float32)}
        )


def distance(meta_params):
    vector = np.append(meta_params["weights"], meta_params["bias"])
    return float(np.linalg.norm(vector - OPTIMUM))


def evolution(problem=None, config=None, **strategy):
    """Evolution with a small population and no validation unless asked for."""
    strategy = {"population_size": 16, "sigma": 0.3, "learning_rate": 0.1} | strategy
    config = {"validation_seeds": 0, "block_size": 64} | (config or {})
    own = StrategyConfig(**strategy).build()
    return Evolution(problem or Quadratic(), own, EvolutionConfig(**config))


def begun(evolution, seed=0, strategy=None):
    """The state before generation 0, replicated over the devices."""
    return devices.replicate(evolution.start(seed, strategy), evolution.num_devices)


def search(state):
    return devices.first(state).search


def best(evolution, state):
    return evolution.strategy.bind(evolution.problem).best(search(state))


def run(evolution, *blocks, state=None):
    """Run blocks (from the start); the final state, and the metrics of all generations."""
    state, parts = begun(evolution) if state is None else state, []
    for length in blocks:
        state, metrics = evolution.run(state, length)
        parts.append(metrics)
    metrics = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return state, metrics


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def drawn(part, scale=0.5, seed=0):
    """Parameters of a part with normal numbers, which need no compilation."""
    shapes, rng = jax.eval_shape(part.init, jax.random.key(0)), np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(scale * rng.normal(size=x.shape), x.dtype), shapes)


# 16 dimensions: in very few, the recursions of LM-MA-ES have no real solution.
TARGET = np.linspace(-1.0, 1.0, 16, dtype=np.float32)
MODES = {"normal": 0, "tied": 1, "all failed": 2, "some failed": 3}


class Point(MetaProblem):
    def __init__(self, size):
        self.size = size

    def init(self, key):
        return jnp.zeros(self.size)


class Stepper:
    """One algorithm with a compiled generation, in which the fitness can be tampered with."""

    def __init__(self, name):
        given = {"sigma": 0.3, "learning_rate": 0.1, "sigma_decay": 0.9}
        if name == "DiffusionEvolution":
            given["settings"] = {"num_generations": 64}
        self.strategy = StrategyConfig(algorithm=name, population_size=16, **given).bind(Point(16))
        self.best = jax.jit(self.strategy.best)

        def init(key):
            return self.strategy.init(key, lambda key: 0.1 * jax.random.normal(key, (16,)))

        def step(key, state, mode):
            ask_key, tell_key = jax.random.split(key)
            population, asked = self.strategy.ask(ask_key, state)
            # Negative throughout: an unknown fitness of zero would look like the best.
            fitness = -jnp.sum(jnp.square(population - TARGET), axis=1) - 1.0
            bad = jnp.arange(16) % 3 == 0
            some = jnp.where(bad, jnp.array([jnp.nan, jnp.inf, -jnp.inf, jnp.nan] * 4), fitness)
            options = jnp.stack([fitness, jnp.full(16, -7.0), jnp.full(16, jnp.nan), some])
            evaluation = Evaluation(with_worst_for_failed(options[mode]), {})
            return self.strategy.tell(tell_key, population, evaluation, asked)

        self.state = jax.jit(init)(jax.random.key(0))
        self._step = jax.jit(step)

    def run(self, *modes):
        states = [self.state]
        for index, mode in enumerate(modes):
            key = jax.random.key(index)
            states.append(self._step(key, states[-1], MODES[mode]))
        return states


@cache
def stepper(name):
    return Stepper(name)


GRID = {"size": 3, "slip_probability": 0.2}
TRAIN = {"total_timesteps": 400, "num_steps": 100}


def q_problem(*tasks):
    """Training tables with a value-loss network of four units."""
    return LearnerProblem(
        "q_learning",
        ValueLossNetwork(hidden_sizes=(4,)),
        tasks or [Task("GridWorld", GRID)],
        train=TRAIN,
        hyperparams={"learning_rate": 0.1, "epsilon_start": 0.1},
        fitness=FitnessConfig(mean_return=0.0, reward_per_step=1.0),
    )


def untuned(held_out, tasks=("task",), scale=None):
    """Scores without tuning, by contender [seeds] or [tasks, seeds]; "learned" is a group."""
    scores = np.stack([np.reshape(each, (len(tasks), 1, -1)) for each in held_out.values()])
    front, groups = scores.shape[:3], tuple(name * (name == "learned") for name in held_out)
    none, scale = np.empty((*front, 0)), None if scale is None else np.array(scale)
    arrays = none, np.zeros(front, int), none, scores.astype(float)
    return Scores(tuple(held_out), groups, tuple(tasks), *arrays, scale=scale)
