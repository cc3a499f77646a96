"""The benchmark of meta-gradients: its estimates by hand, and on a problem that is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarks import meta_gradients
from experiments.benchmarks.meta_gradients import (
    Landscape,
    add_scores,
    at_equal_compute,
    clipped,
    cosine,
    draw,
    estimates,
    keys_of,
    noise,
    squared_mean,
    table_of_estimates,
)
from experiments.benchmarks.tables import Table
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose

HIGHEST = 1.0


class Noisy:
    """Highest at 1, 1, 1; a key tilts it. `ascend` sees two of the three numbers at window 1."""

    def init(self, key):
        return jnp.zeros(3)

    def evaluate(self, key, meta_params):
        tilt = 0.1 * jax.random.normal(key, (3,))
        value = -0.05 * jnp.sum(jnp.square(meta_params - HIGHEST)) + tilt @ meta_params
        return Evaluation(value, {})

    def ascend(self, key, meta_params, window):
        gradient = jax.grad(lambda x: self.evaluate(key, x).fitness)(meta_params)
        seen = jnp.array([1.0, 1.0, float(window > 1)])
        return self.evaluate(key, meta_params)._replace(gradient=gradient * seen)


def test_noise_and_cosine_are_without_bias():
    rng = np.random.default_rng(0)
    mean, other = np.array([0.3, 0.4, 0.0]), np.array([0.0, 0.5, 0.0])
    lengths = [squared_mean(mean + rng.normal(size=(8, 3))) for _ in range(2000)]
    assert np.mean(lengths) == pytest.approx(0.25, abs=0.02)  # not 0.25 + 3 / 8
    many = rng.normal(size=(200_000, 3))
    assert noise(mean + many) == pytest.approx(3 / 0.25, rel=0.03)
    assert cosine(mean + many, other + many[:, ::-1]) == pytest.approx(0.8, abs=0.03)
    assert noise(np.array([[1.0], [-1.0]])) == float("inf")


def test_gradients_are_clipped_as_the_strategy_does():
    found = clipped(np.array([[0.3, 0.4], [30.0, 40.0], [np.nan, 1.0]]))
    np.testing.assert_allclose(found, [[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]])


@pytest.mark.long
def test_a_known_landscape(monkeypatch, tmp_path):
    monkeypatch.setattr(meta_gradients, "STEPS", (0.1, 1.0, 5.0))
    landscape = Landscape(Noisy(), jnp.zeros(3))
    keys = keys_of(0, Purpose.HELD_OUT, 0, 64)
    gains = landscape.gains(keys, np.array([2.0, 2.0, 2.0]))
    tilts = 0.1 * np.array([jax.random.normal(key, (3,)) for key in keys])
    steps = np.array([[0.1], [1.0], [5.0]])  # along each axis
    expected = 0.15 * (1 - np.square(steps - 1)) + steps * tilts.sum(axis=1)
    np.testing.assert_allclose(gains, expected, atol=1e-5)
    pairs = landscape.pairs(keys_of(0, Purpose.EVOLUTION, 1, 4000))
    np.testing.assert_allclose(pairs.mean(axis=0), 0.1, atol=0.03)
    found = estimates(landscape, [1, 2], 64, 64, 0)
    one, two, evolution = found
    assert one.cosine == pytest.approx((2 / 3) ** 0.5, abs=0.15)
    assert two.cosine == pytest.approx(1.0, abs=1e-6)
    assert one.step == two.step == 1.0
    assert two.gain > one.gain > 0
    assert two.noise == pytest.approx(0.03 / 0.03, rel=0.5)  # variance of the tilt / gradient
    assert evolution.window is None
    draw({"noisy": found}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert [row[1] for row in table_of_estimates({"noisy": found}).rows] == ["1", "2", "evolution"]


@pytest.mark.long
def test_both_strategies_climb_for_as_long():
    starts, found = at_equal_compute(Noisy(), 0.05, 2, 8)
    assert list(found) == list(meta_gradients.STRATEGIES)
    for each in found.values():
        assert len(each.scores) == 2
        assert min(each.scores) > max(starts)
        assert each.trained > 0
    table = Table(*"abcdefg")
    add_scores(table, "noisy", starts, found)
    assert len(table.rows) == 1
