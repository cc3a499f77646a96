import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.tasks.fitness import FitnessConfig, Windows, all_finite, fitness, measures
from purerl.types import EpisodeSums


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_single_number_that_is_not_finite_is_enough(xp):
    tree = {"a": xp.ones((3, 2)), "n": xp.ones(3, int), "b": [xp.asarray([0.0, np.inf, np.nan])]}
    assert isinstance(all_finite(tree, axes=1), np.ndarray if xp is np else jnp.ndarray)
    assert all_finite(tree, axes=1).tolist() == [True, False, False]
    assert not all_finite(tree)
    assert all_finite({"a": tree["a"], "n": tree["n"]})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_final_return_is_of_the_last_tenth_alone(bad):
    returns = jnp.full(20, 3.0).at[4].set(bad)
    ones = jnp.ones(20)
    found = measures(EpisodeSums(ones, returns, ones, ones, ones))
    assert found["final_return"] == 3.0
    assert not np.isfinite(found["mean_return"])


@pytest.mark.parametrize(("points", "updates"), [(4, 12), (4, 13), (5, 3), (200, 450), (1, 7)])
def test_windows_cover_the_whole_training(points, updates):
    windows = Windows.at_most(points, updates)
    assert windows.count <= points
    ends = windows.ends()
    assert len(ends) == windows.count
    assert ends[-1] == updates
    assert (np.diff(ends, prepend=0) <= windows.every).all()
    sums = np.arange(1.0, updates + 1)
    np.testing.assert_array_equal(
        np.cumsum(windows.pooled({"x": jnp.asarray(sums)})["x"]), np.cumsum(sums)[ends - 1]
    )


def sums(episodes, returns, rewards=None):
    """Sums per update; every update has 8 steps."""
    count = len(episodes)
    rewards = returns if rewards is None else rewards
    fields = episodes, returns, [0] * count, rewards, [8] * count
    return EpisodeSums(*(jnp.asarray(field, jnp.float32) for field in fields))


def test_measures_by_hand():
    episodes = [0, 2, 0, 1, 0, 0, 3, 0, 0, 2] * 2  # twenty updates: the last tenth is two
    returns = [0, 8, 0, 6, 0, 0, 30, 0, 0, 9] * 2
    found = measures(sums(episodes, returns, rewards=[4.0] * 20))
    assert found["mean_return"] == pytest.approx(2 * 53 / 16)
    assert found["final_return"] == pytest.approx(9 / 2)
    assert found["reward_per_step"] == pytest.approx(0.5)


def test_without_finished_episodes_only_the_reward_is_known():
    found = measures(sums([0] * 5, [0] * 5, rewards=[2, 2, 2, 2, 0]))
    assert np.isnan(found["mean_return"])
    assert np.isnan(found["final_return"])
    assert found["reward_per_step"] == pytest.approx(0.2)
    assert fitness(FitnessConfig(0.0, 0.0, 10.0), found) == pytest.approx(2.0)
    assert np.isnan(fitness(FitnessConfig(1.0, 0.0, 10.0), found))


def test_final_return_falls_back_to_the_last_end():
    """An agent that balances for ever finishes nothing in its last tenth."""
    found = measures(sums([4, 0, 1, 0] + [0] * 16, [4, 0, 90, 0] + [0] * 16))
    assert found["final_return"] == 90
    found = measures(sums([4] + [0] * 19, [4] + [0] * 19))
    assert found["final_return"] == 1


def test_a_shorter_training_has_its_own_last_tenth():
    count, zero = jnp.zeros(40), jnp.zeros(40)
    count = count.at[:20].set(1.0)
    returns = jnp.arange(40.0) * count
    sums = EpisodeSums(count, returns, zero, zero, count)
    found = measures(sums, jnp.int32(20))
    np.testing.assert_allclose(found["final_return"], (18 + 19) / 2)
    shorter = jax.tree.map(lambda leaf: leaf[:20], sums)
    for name, value in measures(shorter).items():
        np.testing.assert_allclose(found[name], value, err_msg=name)
