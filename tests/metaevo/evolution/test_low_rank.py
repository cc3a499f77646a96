import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.evolution import low_rank
from metaevo.evolution.evosax import StrategyConfig
from metaevo.evolution.problem import Evaluation
from tests.metaevo import toy

SIGMA = 0.3


class Matrices(metaevo.MetaProblem):
    """Fitness is minus the squared distance from ones."""

    def init(self, key):
        matrix, stack = 0.1 * jax.random.normal(key, (24, 16)), jnp.zeros((2, 20, 16))
        return {
            "matrix": matrix,
            "stack": stack,
            "vector": jnp.zeros(4),
            "small": jnp.zeros((6, 3)),
        }

    def evaluate(self, key, meta_params, task):
        errors = jax.tree.map(lambda leaf: jnp.sum((leaf - 1.0) ** 2), meta_params)
        return Evaluation(-sum(jax.tree.leaves(errors)), {})


def asked(size, problem=None, rank=1, **changed):
    """The strategy, its first state, and the perturbations of its first candidates [size]."""
    changed = {"sigma": SIGMA, "settings": {"rank": rank}} | changed
    config = StrategyConfig(algorithm="low_rank_es", population_size=size, **changed)
    strategy = config.build()
    state = strategy.init(jax.random.key(0), (problem or Matrices()).init)
    cloud, state = strategy.ask(jax.random.key(1), state)
    candidates = jax.vmap(strategy.candidate, (None, 0))(cloud, jnp.arange(size))
    steps = jax.tree.map(lambda all, mean: (all - mean) / SIGMA, candidates, state.mean)
    return strategy, cloud, state, jax.device_get(steps)


@pytest.mark.parametrize("rank", [1, 2])
def test_matrices_have_the_rank_and_all_numbers_have_unit_variance_in_pairs(rank):
    *_, steps = asked(2000, rank=rank)
    for leaf in jax.tree.leaves(steps):
        np.testing.assert_allclose(leaf[::2], -leaf[1::2], atol=1e-5)
        np.testing.assert_allclose(leaf[::2].std(axis=0), 1.0, atol=0.5)
        assert leaf.std() == pytest.approx(1.0, abs=0.05)
        assert np.abs(leaf[::2].mean(axis=0)).max() < 0.25
    for matrices in (steps["matrix"][:40], steps["stack"][:40, 0], steps["stack"][:40, 1]):
        assert set(np.linalg.matrix_rank(matrices, tol=1e-4)) == {rank}
    assert np.linalg.matrix_rank(steps["stack"][::2].reshape(1000, -1), tol=1e-2) == 640
    full = np.concatenate([steps["small"][::2].reshape(1000, -1), steps["vector"][::2]], axis=1)
    assert np.linalg.matrix_rank(full) == 22


@pytest.mark.parametrize("shaping", ["auto", "standardize"])
def test_tell_follows_the_sum_of_all_perturbations(shaping):
    """As Open_ES: the weighted mean of perturbations over sigma, here summed in float64."""
    size = 2 * (low_rank.PAIRS + 5)
    strategy, cloud, state, steps = asked(
        size, optimizer="sgd", fitness_shaping=shaping, rank=2, learning_rate=0.5
    )
    fitness = np.random.default_rng(0).normal(size=size)
    told = strategy.tell(jax.random.key(2), cloud, Evaluation(jnp.float32(fitness), {}), state)
    ranks = np.argsort(np.argsort(fitness)) / (size - 1) - 0.5
    weights = ranks if shaping == "auto" else (fitness - fitness.mean()) / fitness.std()
    for name, mean in state.mean.items():
        step = 0.5 * np.tensordot(weights, np.float64(steps[name]), 1) / (size * SIGMA)
        np.testing.assert_allclose(told.mean[name] - mean, step, atol=1e-6, rtol=1e-4)


def test_without_matrices_perturbations_are_full():
    _, cloud, _, steps = asked(4, toy.Point(5), rank=3)
    *_, other = asked(4, toy.Point(5), rank=1)
    toy.assert_same(steps, other)
    full = [jax.random.normal(jax.random.fold_in(cloud.key, pair), (5,)) for pair in range(2)]
    np.testing.assert_allclose(steps[::2], full, rtol=1e-5)


def test_ties_change_the_generation_only():
    strategy, cloud, state, _ = asked(8)
    told = strategy.tell(jax.random.key(2), cloud, Evaluation(jnp.zeros(8), {}), state)
    toy.assert_same(told, state.replace(generation=jnp.int32(1)))


@pytest.mark.long
def test_it_improves_alike_in_other_layouts_and_continues_to_the_bit(monkeypatch, tmp_path):
    given = {"algorithm": "low_rank_es", "population_size": 64, "settings": {"rank": 2}}
    found = []
    for count, size, pairs in ((1, 32, 64), (2, 4, 64), (1, 5, 7)):
        monkeypatch.setattr(low_rank, "PAIRS", pairs)
        layout = {"num_devices": count, "chunk_size": size}
        this = toy.evolution(Matrices(), layout, **given)
        state, metrics = toy.run(this, 40)
        found.append(jax.device_get(this.result(state)))
        assert metrics["fitness_mean"][-1] > 0.7 * metrics["fitness_mean"][0]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3), found[0], found[-1])
    for path, parts in ((tmp_path / "whole", (4,)), (tmp_path / "parts", (3, 4))):
        for generations in parts:
            result = metaevo.evolve(
                Matrices(), strategy=given, generations=generations, run_dir=path,
                resume=path.exists(), evolution={"num_devices": 1},
            )  # fmt: skip
        found.append(result.meta_params)
    toy.assert_same(*found[-2:])
