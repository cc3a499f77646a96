"""Distributions of tasks: the candidates of a generation share tasks, which are not batched."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.evolution import Evolution

STRATEGY = metaevo.StrategyConfig(population_size=6, sigma=0.1)
RUN: Counter = Counter()


class Targets:
    """Two kinds of tasks: a drawn target for the sum, or for the sum of squares."""

    def init(self, key):
        return jnp.zeros(2)

    def draw(self, key):
        kind_key, target_key = jax.random.split(key)
        kind = jax.random.randint(kind_key, (), 0, 2)
        return {"kind": kind, "target": jax.random.uniform(target_key, minval=1.0, maxval=3.0)}

    def evaluate(self, key, meta_params, task):
        value = jax.lax.switch(task["kind"], [self.plain, self.squares], meta_params)
        error = value - task["target"] + 0.01 * jax.random.normal(key)
        return metaevo.Evaluation(-jnp.square(error), {"target": task["target"]})

    def plain(self, meta_params):
        return jnp.sum(meta_params)

    def squares(self, meta_params):
        return jnp.sum(meta_params**2)


class Counted(Targets):
    def plain(self, meta_params):
        jax.debug.callback(lambda: RUN.update(["plain"]))
        return super().plain(meta_params)

    def squares(self, meta_params):
        jax.debug.callback(lambda: RUN.update(["squares"]))
        return super().squares(meta_params)


def records(problem, generations=4, **config):
    config = {"validation_seeds": 0, **config}
    this = Evolution(problem, STRATEGY, metaevo.EvolutionConfig(**config), seed=3)
    state, metrics = this.run_block(this.init(), generations)
    return this, state, metrics


def test_candidates_share_the_tasks_of_a_generation():
    _, _, metrics = records(Targets(), generations=20)
    assert len(set(metrics["target"].tolist())) == 20  # another task in each generation
    assert ((metrics["target"] > 1.0) & (metrics["target"] < 3.0)).all()
    _, _, several = records(Targets(), generations=20, tasks_per_generation=8)
    assert np.std(several["target"]) < 0.6 * np.std(metrics["target"])  # a mean over eight tasks


@pytest.mark.parametrize("layout", [{"chunk_size": 1}, {"chunk_size": 5}, {"num_devices": 1}])
def test_results_do_not_depend_on_the_layout(layout):
    config = {
        "tasks_per_generation": 3, "seeds_per_candidate": 2,
        "validation_seeds": 3, "validation_every": 2,
    }  # fmt: skip
    _, _, expected = records(Targets(), **config, num_devices=4, chunk_size=2)
    _, _, found = records(Targets(), **config, **layout)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, err_msg=name)


def test_validation_has_fixed_tasks():
    problem = Targets()
    this, _, _ = records(problem, tasks_per_generation=2, validation_seeds=4, generations=1)
    strategy = metaevo.StrategyConfig(population_size=6, sigma=1e-6, learning_rate=1e-6)
    config = metaevo.EvolutionConfig(tasks_per_generation=2, validation_seeds=4, validation_every=1)
    this = Evolution(problem, strategy, config, seed=3)
    _, metrics = this.run_block(this.init(), 5)
    np.testing.assert_allclose(metrics["fitness_of_mean"], metrics["fitness_of_mean"][0], rtol=1e-3)
    assert np.ptp(metrics["fitness_mean"]) > 0.1  # while the tasks of candidates change
    assert this.evaluations == 6 * 2


def test_only_the_drawn_branch_runs():
    RUN.clear()
    _, state, metrics = records(Counted(), generations=1, num_devices=1, chunk_size=3)
    jax.block_until_ready(state)
    jax.effects_barrier()
    assert len(RUN) == 1
    assert np.isfinite(metrics["fitness_mean"])


def test_evaluations_in_bulk_draw_a_task_for_each_key():
    problem = Targets()
    keys = jax.random.split(jax.random.key(0), 3)
    found = metaevo.evaluate(problem, jnp.zeros((2, 2)), keys)
    np.testing.assert_array_equal(found.metrics["target"][0], found.metrics["target"][1])
    assert len(set(found.metrics["target"][0].tolist())) == 3


def test_a_problem_without_tasks_has_one_per_generation():
    class Plain:
        def init(self, key):
            return jnp.zeros(2)

        def evaluate(self, key, meta_params):
            return metaevo.Evaluation(jnp.sum(meta_params), {})

    config = metaevo.EvolutionConfig(tasks_per_generation=2)
    with pytest.raises(ConfigError, match="tasks_per_generation = 2"):
        check_evolution(Plain(), STRATEGY, config)
