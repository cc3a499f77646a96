"""Pools of settings, finalists and budgets."""

import numpy as np
import pytest

from metaevo.config.space import free_space
from metaevo.judging.budget import FULL, QUICK, STANDARD, Budget
from metaevo.judging.pool import finalists, pool

SPACE = {
    "a": {"uniform": [-1.0, 3.0]},
    "b": {"log_uniform": [1e-4, 1e-1]},
    "c": {"integer": [2, 8], "step": 3},
    "d": {"log_integer": [1, 64]},
    "e": [0.0, 0.5],
}


def test_points_belong_to_the_ranges_of_sweeps():
    points = pool(SPACE, 50, seed=3)
    for column, entry in zip(points.T, free_space(SPACE).entries.values(), strict=True):
        assert all(entry._contains(entry.to_internal_repr(each)) for each in column.tolist())


def test_every_part_of_a_range_has_its_share():
    points = pool(SPACE, 64, seed=0)
    assert np.histogram(points[:, 0], bins=np.linspace(-1, 3, 9))[0].tolist() == [8] * 8
    assert np.unique(points[:, 4], return_counts=True)[1].tolist() == [32, 32]
    assert set(points[:, 2]) == {2, 5, 8}


def test_other_ranges_and_further_hyperparameters_keep_the_points():
    both = pool({**SPACE, "a": {"uniform": [0, 8]}, "f": {"uniform": [0, 1]}}, 16, seed=1)
    points = pool(SPACE, 16, seed=1)
    np.testing.assert_allclose(both[:, 0], 2 * (points[:, 0] + 1))
    np.testing.assert_array_equal(both[:, 1:5], points[:, 1:])
    assert (pool(SPACE, 16, seed=2) != points).any()
    np.testing.assert_array_equal(pool(SPACE, 8, seed=1), points[:8])
    assert pool({}, 4, seed=0).shape == (4, 0)


@pytest.mark.parametrize(
    "rule",
    [
        {"uniform": [1, 1]},
        {"uniform": [2, 1]},
        {"log_uniform": [0, 1]},
        {"log_integer": [0, 4]},
        {"integer": [1]},
        {"choice": []},
        {"choice": ["relu", "tanh"]},
        {"normal": [0, 1]},
        {},
        {"uniform": [0, float("nan")]},
    ],
)
def test_a_wrong_range_is_named(rule):
    with pytest.raises(ValueError, match=r"space\.x = "):
        pool({"x": rule}, 4, seed=0)


def test_the_untuned_setting_is_a_finalist():
    screening = np.array([[0.0, 0.0], [3.0, 1.0], [5.0, 5.0], [np.nan, 9.0], [2.0, 2.0]])
    assert finalists(screening, 3).tolist() == [0, 2, 1]
    assert finalists(screening, 5).tolist() == [0, 2, 1, 4, 3]
    assert finalists(screening, 1).tolist() == [0]


@pytest.mark.parametrize("name", ["screening_seeds", "finalists", "selection_seeds", "seeds"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "8"])
def test_a_budget_of_nothing_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"^{name} = .*: must be an integer of at least \d$"):
        Budget(**{name: value})


def test_a_budget_counts_its_agents():
    assert Budget(settings=0, seeds=64).shape == (1, 0, 1, 0, 64)
    assert Budget(settings=0, seeds=64).agents == 64
    assert Budget(settings=3, finalists=8).shape[:3] == (4, 2, 4)
    assert QUICK.agents < STANDARD.agents < FULL.agents
