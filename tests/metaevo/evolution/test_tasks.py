"""Distributions of tasks: the candidates of a generation share tasks, which are not batched."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.evolution import devices
from metaevo.evolution.across_tasks import combine, ranks_in_pairs
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.evolution import Evolution
from metaevo.evolution.problem import draw_task
from metaevo.evolution.seeding import Purpose, key_for

STRATEGY = metaevo.StrategyConfig(population_size=6, sigma=0.1)
RUN: Counter = Counter()


class Targets:
    """Two kinds of tasks: a drawn target for the sum, or for the sum of squares."""

    def __init__(self, tasks=1, validation_tasks=None):
        self.tasks_per_generation = tasks
        self.validation_tasks = validation_tasks or tasks

    def init(self, key):
        return jnp.zeros(2)

    def draw(self, key, index):
        kind_key, target_key = jax.random.split(jax.random.fold_in(key, index))
        kind = jax.random.randint(kind_key, (), 0, 2)
        return {"kind": kind, "target": jax.random.uniform(target_key, minval=1.0, maxval=3.0)}

    def frames_of(self, task):
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


class Relative(Targets):
    """The reference reaches the target, except for noise, and is a metric of the candidates."""

    frames = 4

    def reference(self, key, task):
        return task["target"] + 0.01 * jax.random.normal(key)

    def evaluate(self, key, meta_params, task, reference=1.0):
        fitness, _ = super().evaluate(key, meta_params, task)[:2]
        return metaevo.Evaluation(fitness / reference, {"reference": jnp.float32(reference)})


def records(problem, generations=4, **config):
    config = {"validation_seeds": 0, **config}
    this = Evolution(problem, STRATEGY, metaevo.EvolutionConfig(**config), seed=3)
    state, metrics = this.run_block(this.init(), generations)
    return this, state, metrics


def test_candidates_share_the_tasks_of_a_generation():
    _, _, metrics = records(Targets(), generations=20)
    assert len(set(metrics["target"].tolist())) == 20  # another task in each generation
    assert ((metrics["target"] > 1.0) & (metrics["target"] < 3.0)).all()
    _, _, several = records(Targets(8), generations=20)
    assert np.std(several["target"]) < 0.6 * np.std(metrics["target"])  # a mean over eight tasks


@pytest.mark.parametrize("more", [{"across_tasks": "rank"}, {"paired_tasks": True}])
def test_results_do_not_depend_on_the_layout(more):
    config = {"seeds_per_candidate": 2, "validation_seeds": 3, "validation_every": 2, **more}
    problem = Targets(3, validation_tasks=2)
    _, _, expected = records(problem, **config, num_devices=4, chunk_size=2)
    _, _, found = records(problem, **config, num_devices=1, chunk_size=5)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, err_msg=name)


def test_validation_has_fixed_tasks():
    strategy = metaevo.StrategyConfig(population_size=6, sigma=1e-6, learning_rate=1e-6)
    config = metaevo.EvolutionConfig(validation_seeds=4, validation_every=1)
    this = Evolution(Targets(2), strategy, config, seed=3)
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


def relative(num_devices):
    """Three generations of two tasks each, on two seeds, with four agents of the reference."""
    config = metaevo.EvolutionConfig(
        seeds_per_candidate=2, validation_seeds=3, validation_every=2, reference_seeds=4,
        num_devices=num_devices, chunk_size=3,
    )  # fmt: skip
    this = Evolution(Relative(2, 3), STRATEGY, config, seed=3)
    state, metrics = this.run_block(this.init(), 3)
    return this, devices.first(state), metrics


@pytest.fixture(scope="module")
def evolved():
    return relative(num_devices=4)


def evaluation_key(generation):
    key = jax.random.fold_in(key_for(3, Purpose.EVOLUTION), generation)
    return jax.random.split(key, 3)[1]


def test_references_have_the_tasks_and_keys_of_the_candidates(evolved):
    this, state, metrics = evolved

    def by_hand(key, number, rows):
        task = draw_task(this.problem, key, number)
        keys = [jax.random.fold_in(key, number * rows + index) for index in range(4)]
        return np.mean([this.problem.reference(each, task) for each in keys])

    for generation in range(3):
        key = evaluation_key(generation)
        expected = np.mean([by_hand(key, number, 6 * 2) for number in range(2)])
        np.testing.assert_allclose(metrics["reference"][generation], expected, rtol=1e-6)
    key = key_for(3, Purpose.VALIDATION)
    expected = [by_hand(key, number, 3) for number in range(3)]
    np.testing.assert_allclose(state.references, expected, rtol=1e-6)


def test_the_validation_is_relative_to_its_own_references(evolved):
    this, state, metrics = evolved
    mean, key = this.strategy.best(this.start().strategy), key_for(3, Purpose.VALIDATION)
    scores = []
    for number, reference in enumerate(state.references):
        task = draw_task(this.problem, key, number)
        for index in range(3):
            own = jax.random.fold_in(key, number * 3 + index)
            scores.append(this.problem.evaluate(own, mean, task, reference).fitness)
    np.testing.assert_allclose(metrics["fitness_of_mean"][0], np.mean(scores), rtol=1e-5)


def test_references_of_validation_are_trained_once(evolved):
    this, _, metrics = evolved

    def frames(key, tasks):
        drawn = [draw_task(this.problem, key, number) for number in range(tasks)]
        return sum(int(this.problem.frames_of(task)) for task in drawn)

    validation = frames(key_for(3, Purpose.VALIDATION), 3)
    for generation, agents in enumerate([3 + 4, 0, 3]):  # of the mean, and of the reference
        own = frames(evaluation_key(generation), 2) * (6 * 2 + 4)
        assert metrics["frames"][generation] == own + validation * agents


def test_references_are_the_same_bits_on_any_number_of_devices(evolved):
    _, expected, metrics = evolved
    _, found, others = relative(num_devices=1)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    for name, values in metrics.items():  # means over the rows may be rounded differently
        np.testing.assert_allclose(others[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.long
def test_a_run_with_references_resumes(tmp_path):
    """A resumed evolution is the same bits; its references were saved with the checkpoint."""

    def run(name, generations, **more):
        found = metaevo.evolve(
            Relative(2, 3), strategy=STRATEGY, generations=generations, run_dir=tmp_path / name,
            evolution={"reference_seeds": 4, "validation_every": 1, "validation_seeds": 2}, **more,
        )  # fmt: skip
        assert found.frames_per_generation == (6 + 4) * 2 * 4
        return [{**each, "seconds": 0} for each in found.table()]

    run("halves", 2)
    assert run("halves", 4, resume=True) == run("whole", 4)


class Plain:
    def init(self, key):
        return jnp.zeros(2)

    def evaluate(self, key, meta_params):
        return metaevo.Evaluation(jnp.sum(meta_params), {})


@pytest.mark.parametrize(
    ("problem", "config", "where"),
    [
        (Plain(), {"across_tasks": "rank"}, "evolution.across_tasks"),
        (Plain(), {"paired_tasks": True}, "evolution.paired_tasks"),
        (Targets(2), {"paired_tasks": True}, "strategy.population_size = 6"),
        (Targets(3), {"paired_tasks": True, "across_tasks": "rank"}, "evolution.across_tasks"),
        (Plain(), {"reference_seeds": 4}, "evolution.reference_seeds = 4: needs tasks"),
        (Targets(3), {"reference_seeds": 4}, "evolution.reference_seeds = 4: needs tasks"),
        (Relative(3), {"reference_seeds": 4, "across_tasks": "rank"}, "across_tasks = 'rank'"),
        (Relative(3), {"reference_seeds": 4, "paired_tasks": True}, "paired_tasks = true"),
    ],
)
def test_settings_that_do_not_fit_the_tasks(problem, config, where):
    with pytest.raises(ConfigError, match=where):
        check_evolution(problem, STRATEGY, metaevo.EvolutionConfig(**config))


def test_pairs_need_a_mirrored_population():
    strategy = metaevo.StrategyConfig(algorithm="CMA_ES", population_size=6)
    with pytest.raises(ConfigError, match="CMA_ES"):
        check_evolution(Targets(3), strategy, metaevo.EvolutionConfig(paired_tasks=True))


class Sums(Plain):
    """The fitness on task i is the i-th scale times the sum, which separates the candidates."""

    tasks_per_generation = 3

    def draw(self, key, index):
        return index

    def evaluate(self, key, meta_params, task):
        return metaevo.Evaluation(jnp.sum(meta_params) + 100.0 * task, {"task": 1.0 * task})


def climbing(**config):
    strategy = metaevo.StrategyConfig(population_size=6, sigma=0.1, learning_rate=0.05)
    config = metaevo.EvolutionConfig(**config, validation_seeds=2)
    return Evolution(Sums(), strategy, config, seed=0)


def test_every_pair_has_one_task():
    """The first half of the population mirrors the second one, and a task has whole pairs."""
    this = climbing(paired_tasks=True)
    layout = this.layout
    places = [layout.place(jnp.int32(row)) for row in range(layout.candidate_rows)]
    tasks = {int(each.candidate): int(each.task) for each in places}
    assert tasks == {0: 0, 3: 0, 1: 1, 4: 1, 2: 2, 5: 2}
    population, _ = this.strategy.ask(jax.random.key(1), this.start().strategy)
    np.testing.assert_allclose(population[:3], -population[3:], rtol=1e-6)
    assert this.evaluations == 6
    state, metrics = this.run_block(this.init(), 20)
    assert (metrics["task"] == 1.0).all()  # each of the tasks 0, 1, 2 was evaluated equally often
    assert (np.asarray(this.result(state)) > 0.5).all()


def test_evolution_climbs_on_all_tasks():
    this = climbing(across_tasks="rank")
    state, _ = this.run_block(this.init(), 20)
    assert (np.asarray(this.result(state)) > 0.5).all()


def test_scores_become_one_fitness():
    scores = jnp.array([[1.0, 2.0, 3.0, 3.0], [900.0, 500.0, 100.0, jnp.nan]])
    np.testing.assert_allclose(combine("mean", scores), [450.5, 251.0, 51.5, np.nan])
    np.testing.assert_allclose(combine("worst_third", scores), [1.0, 2.0, 3.0, np.nan])
    ranks = [(0 + 1) / 2, (1 / 3 + 2 / 3) / 2, (2.5 / 3 + 1 / 3) / 2, np.nan]
    np.testing.assert_allclose(combine("rank", scores), ranks, rtol=1e-6)
    found = ranks_in_pairs(jnp.array([1.0, 5.0, jnp.nan, 2.0, 5.0, 0.0]))
    np.testing.assert_allclose(found, [0, 0.5, 0, 1, 0.5, 1])
