from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.evolution.loop import Evolution
from metaevo.evolution.problem import Purpose, key_for, task_key
from metaevo.evolution.strategy import across_tasks, check_evolution
from tests.metaevo.toy import begun

STRATEGY = metaevo.OpenES(population_size=6, sigma=0.1)
RUN: Counter = Counter()


class Targets(metaevo.MetaProblem):
    """Two kinds of tasks: a drawn target for the sum, or for the sum of squares."""

    tasks_per_generation = 1

    def __init__(self, drawn=1, tasks=None):
        self.tasks_per_generation, self.tasks = drawn, [str(i) for i in range(tasks or drawn)]

    def init(self, key):
        return jnp.zeros(2)

    def draw_task(self, key, index):
        kind_key, target_key = jax.random.split(jax.random.fold_in(key, index))
        kind = jax.random.randint(kind_key, (), 0, 2)
        return {"kind": kind, "target": jax.random.uniform(target_key, minval=1.0, maxval=3.0)}

    def frames(self, task):
        return 3 + task["kind"]

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
    config = {"validation_seeds": 0, "block_size": 20, **config}
    this = Evolution(problem, STRATEGY, metaevo.EvolutionConfig(**config))
    state, metrics = this.run(begun(this, 3), generations)
    return this, state, metrics


def test_results_do_not_depend_on_the_layout():
    config = {
        "seeds_per_candidate": 2,
        "validation_seeds": 3,
        "validation_every": 2,
        "across_tasks": "rank",
    }
    problem = Targets(2, tasks=3)
    this, state, expected = records(problem, **config, num_devices=4, chunk_size=2)
    other, other_state, found = records(problem, **config, num_devices=1, chunk_size=5)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(other.result(other_state), this.result(state), rtol=1e-4)


def test_validation_has_fixed_tasks():
    strategy = metaevo.OpenES(population_size=6, sigma=1e-6, learning_rate=1e-6)
    config = metaevo.EvolutionConfig(validation_seeds=4, validation_every=1)
    this = Evolution(Targets(2), strategy, config)
    _, metrics = this.run(begun(this, 3), 5)
    np.testing.assert_allclose(metrics["fitness_of_mean"], metrics["fitness_of_mean"][0], rtol=1e-3)
    assert np.ptp(metrics["fitness_mean"]) > 0.1  # while the tasks of candidates change


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


def test_frames_are_those_of_the_drawn_tasks():
    config = {"seeds_per_candidate": 2, "validation_seeds": 3, "validation_every": 2}
    problem = Targets(2, 3)
    config |= {"generations": 3, "block_size": 2}
    this = Evolution(problem, STRATEGY, metaevo.EvolutionConfig(**config))
    blocks = this.blocks(this.start(3), frames=10)
    records = [record for block in blocks for record in block.records]

    def frames(key, tasks):
        drawn = [problem.draw_task(task_key(key), number) for number in range(tasks)]
        return sum(int(problem.frames(task)) for task in drawn)

    validation, expected = frames(key_for(3, Purpose.VALIDATION), 3), 10
    for generation, agents in enumerate([3, 0, 3]):
        key = jax.random.fold_in(key_for(3, Purpose.EVOLUTION), generation)
        expected += frames(jax.random.split(key, 3)[1], 2) * 6 * 2 + validation * agents
        assert records[generation]["frames"] == expected


def test_ranks_across_tasks_need_several():
    with pytest.raises(ConfigError, match=r"evolution\.across_tasks"):
        check_evolution(Targets(), STRATEGY, metaevo.EvolutionConfig(across_tasks="rank"))


def test_scores_become_one_fitness():
    scores = jnp.array([[1.0, 2.0, 3.0, 3.0], [900.0, 500.0, 100.0, jnp.nan]])
    np.testing.assert_allclose(across_tasks("mean", scores), [450.5, 251.0, 51.5, np.nan])
    ranks = [(0 + 1) / 2, (1 / 3 + 2 / 3) / 2, (2.5 / 3 + 1 / 3) / 2, np.nan]
    np.testing.assert_allclose(across_tasks("rank", scores), ranks, rtol=1e-6)
