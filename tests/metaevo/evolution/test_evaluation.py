import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from tests.metaevo.toy import Quadratic

PROBLEM = Quadratic(noise=0.01)
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
            assert found.table()[3 * row + column] == {**record, "luck": expected.metrics["luck"]}
    np.testing.assert_allclose(found.fitness, found.scores.mean(1))


def test_a_failed_candidate_does_not_affect_others():
    given = candidates(4)
    expected = metaevo.evaluate(PROBLEM, given, KEYS).fitness
    broken = {**given, "weights": given["weights"].at[2, 0].set(jnp.nan)}
    found = metaevo.evaluate(PROBLEM, broken, KEYS).fitness
    assert np.isnan(found[2])
    np.testing.assert_array_equal(np.delete(found, 2), np.delete(expected, 2))


def test_a_problem_is_compiled_once():
    problem = Quadratic()
    metaevo.evaluate(problem, candidates(8), KEYS)
    before = problem.traces
    metaevo.evaluate(problem, candidates(8), jax.random.split(jax.random.key(7), 3))
    assert problem.traces == before


@pytest.mark.parametrize(
    ("given", "keys", "complaint"),
    [
        ({"weights": np.zeros((2, 3))}, KEYS, "candidates"),
        ({"weights": np.zeros((2, 4)), "bias": np.zeros(2)}, KEYS, r"candidates\['weights'\]"),
        ({"weights": np.zeros((2, 3), int), "bias": np.zeros(2)}, KEYS, r"float32\[2, 3\]"),
        ({"weights": np.zeros((0, 3)), "bias": np.zeros(0)}, KEYS, "candidates"),
        ({"weights": np.zeros(3), "bias": np.zeros(3)}, KEYS, r"candidates\['weights'\]"),
        ({"weights": np.zeros((2, 3)), "bias": np.zeros(2)}, jax.random.key(0), "keys"),
    ],
)
def test_wrong_shapes_are_named(given, keys, complaint):
    with pytest.raises(metaevo.ConfigError, match=complaint):
        metaevo.evaluate(PROBLEM, given, keys)
    with pytest.raises(metaevo.ConfigError, match="problem = 3"):
        metaevo.evaluate(3, given, keys)
