import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.config.space import free_space
from metaevo.judging.budget import QUICK, Budget
from metaevo.judging.judge import judge

SPACE = {
    "a": {"uniform": [-1.0, 3.0]},
    "b": {"log_uniform": [1e-4, 1e-1]},
    "c": {"integer": [2, 8], "step": 3},
    "d": {"log_integer": [1, 64]},
    "e": [0.0, 0.5],
}


def test_points_are_in_their_ranges_with_equal_shares():
    points = Budget(64).points(SPACE, seed=3)
    for column, entry in zip(points.T, free_space(SPACE).values(), strict=True):
        assert all(entry._contains(entry.to_internal_repr(each)) for each in column.tolist())
    assert np.histogram(points[:, 0], bins=np.linspace(-1, 3, 9))[0].tolist() == [8] * 8
    assert np.unique(points[:, 4], return_counts=True)[1].tolist() == [32, 32]
    assert set(points[:, 2]) == {2, 5, 8}


def test_other_ranges_and_further_hyperparameters_keep_the_points():
    points = Budget(16).points(SPACE, seed=1)
    other = {**SPACE, "a": {"uniform": [0, 8]}, "f": {"uniform": [0, 1]}}
    both = Budget(16).points(other, seed=1)
    np.testing.assert_allclose(both[:, 0], 2 * (points[:, 0] + 1))
    np.testing.assert_array_equal(both[:, 1:5], points[:, 1:])
    assert (Budget(16).points(SPACE, seed=2) != points).any()
    np.testing.assert_array_equal(Budget(8).points(SPACE, seed=1), points[:8])


@pytest.mark.parametrize(
    "rule", [{"uniform": [2, 1]}, {"log_uniform": [0, 1]}, ["relu", "tanh"], {"normal": [0, 1]}]
)
def test_a_wrong_range_is_named(rule):
    with pytest.raises(ConfigError, match=r"^space\.x"):
        Budget(4).points({"x": rule}, seed=0)
    with pytest.raises(ConfigError, match="at most 64"):
        Budget(4).points({f"x{index}": [0, 1] for index in range(65)}, seed=0)


def test_the_untuned_setting_is_a_finalist():
    screening = np.array([[0.0, 0.0], [3.0, 1.0], [5.0, 5.0], [np.nan, 9.0], [2.0, 2.0]])
    assert Budget(4, finalists=3).best(screening).tolist() == [0, 2, 1]
    assert Budget(4, finalists=8).best(screening).tolist() == [0, 2, 1, 4, 3]


@pytest.mark.parametrize("name", ["screening_seeds", "finalists", "selection_seeds", "seeds"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "8"])
def test_a_budget_of_nothing_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"^{name} = .*: must be "):
        judge([], Budget(**{name: value}))


def test_a_budget_counts_its_agents():
    assert Budget(settings=0, seeds=64).shape == (1, 0, 1, 0, 64)
    assert Budget(settings=0, seeds=64).agents == 64
    assert Budget(settings=3, finalists=8).shape[:3] == (4, 2, 4)
    assert (QUICK.agents, Budget().agents) == (641, 2050)
