import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo


class Noisy(metaevo.MetaProblem):
    """Minus the squared distance from one, with noise of the key; fails below -5."""

    def init(self, key):
        return {"x": jax.random.normal(key, (3,)), "y": jnp.zeros(())}

    def evaluate(self, key, meta_params, task):
        x, noise = meta_params["x"], jax.random.normal(key)
        error = jnp.sum((x - 1.0) ** 2) + meta_params["y"] ** 2
        fitness = jnp.where(x[0] < -5.0, jnp.nan, 0.01 * noise - error)
        return metaevo.Evaluation(fitness, {"noise": noise})


PROBLEM = Noisy()
KEYS = jax.random.split(jax.random.key(1), 3)


def candidates(count):
    return jax.vmap(PROBLEM.init)(jax.random.split(jax.random.key(0), count))


@pytest.mark.parametrize("count", [1, 7])
def test_it_agrees_with_one_by_one_and_keeps_a_record_of_each(count):
    given = candidates(count)
    found = metaevo.evaluate(PROBLEM, given, KEYS)
    for row in range(count):
        alone = {name: leaf[row] for name, leaf in given.items()}
        for column, key in enumerate(KEYS):
            expected = PROBLEM.evaluate(key, alone, 0)
            assert found.scores[row, column] == pytest.approx(float(expected.fitness), rel=1e-5)
            record = {"candidate": row, "key": column, "fitness": found.scores[row, column]}
            assert found.table()[3 * row + column] == {**record, "noise": expected.metrics["noise"]}
    np.testing.assert_allclose(found.fitness, found.scores.mean(1))


def test_a_failed_candidate_does_not_affect_others():
    given = candidates(4)
    expected = metaevo.evaluate(PROBLEM, given, KEYS).fitness
    broken = {**given, "x": given["x"].at[2, 0].set(-9.0)}
    found = metaevo.evaluate(PROBLEM, broken, KEYS).fitness
    assert np.isnan(found[2])
    np.testing.assert_array_equal(np.delete(found, 2), np.delete(expected, 2))


def test_a_problem_is_compiled_once():
    traces = []

    class Counted(Noisy):
        def evaluate(self, key, meta_params, task):
            traces.append(key)
            return super().evaluate(key, meta_params, task)

    problem = Counted()
    metaevo.evaluate(problem, candidates(8), KEYS)
    before = len(traces)
    metaevo.evaluate(problem, candidates(8), jax.random.split(jax.random.key(7), 3))
    assert len(traces) == before


@pytest.mark.parametrize(
    ("given", "keys", "complaint"),
    [
        ({"x": np.zeros((2, 3))}, KEYS, "candidates"),
        ({"x": np.zeros((2, 4)), "y": np.zeros(2)}, KEYS, r"candidates\['x'\]"),
        ({"x": np.zeros((0, 3)), "y": np.zeros(0)}, KEYS, "candidates"),
        ({"x": np.zeros(3), "y": np.zeros(())}, KEYS, r"candidates\['x'\]"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(2)}, jax.random.key(0), "keys"),
    ],
)
def test_wrong_shapes_are_named(given, keys, complaint):
    with pytest.raises(metaevo.ConfigError, match=complaint):
        metaevo.evaluate(PROBLEM, given, keys)
