import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.parts import rollouts

T, N = 12, 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unfinished_episode_without_a_return_is_not_counted(bad):
    rewards = jnp.ones((T, N)).at[8, 1].set(bad)
    done = jnp.zeros((T, N), bool).at[jnp.array([3, 7])].set(True).at[10, 0].set(True)

    def step(carry, row):
        return rollouts.record(*carry, *row), None

    (_, sums), _ = jax.lax.scan(
        step, (rollouts.begin_episodes(N), rollouts.zero_sums(N)), (rewards, done)
    )
    np.testing.assert_array_equal(sums.returns, [11.0, 8.0, 8.0])
    np.testing.assert_array_equal(sums.lengths, [11.0, 8.0, 8.0])
    np.testing.assert_array_equal(sums.episodes, [3.0, 2.0, 2.0])
    np.testing.assert_array_equal(np.isfinite(sums.rewards), [True, False, True])
