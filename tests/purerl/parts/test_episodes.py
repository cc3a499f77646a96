import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.parts import rollouts

T, N = 12, 3


def record(rewards, done):
    """Record T steps of N environments; return the sums, each [N]."""

    def step(carry, row):
        return rollouts.record(*carry, *row), None

    carry = rollouts.begin_episodes(N), rollouts.zero_sums(N)
    return jax.jit(lambda rows: jax.lax.scan(step, carry, rows)[0][1])((rewards, done))


def test_sums_of_finished_episodes():
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=(T, N)).astype(np.float32)
    done = rng.random((T, N)) < 0.3
    sums = record(rewards, done)
    for n in range(N):
        ends = np.flatnonzero(done[:, n])
        last = ends[-1] + 1 if len(ends) else 0
        assert sums.episodes[n] == len(ends)
        assert sums.lengths[n] == last
        assert sums.returns[n] == pytest.approx(rewards[:last, n].sum(), rel=1e-5)
        assert sums.rewards[n] == pytest.approx(rewards[:, n].sum(), rel=1e-5)
    np.testing.assert_array_equal(sums.steps, T)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unfinished_episode_without_a_return_is_not_counted(bad):
    rewards = jnp.ones((T, N)).at[8, 1].set(bad)
    done = jnp.zeros((T, N), bool).at[jnp.array([3, 7])].set(True).at[10, 0].set(True)
    sums = record(rewards, done)
    np.testing.assert_array_equal(sums.returns, [11.0, 8.0, 8.0])
    np.testing.assert_array_equal(sums.lengths, [11.0, 8.0, 8.0])
    np.testing.assert_array_equal(sums.episodes, [3.0, 2.0, 2.0])
    np.testing.assert_array_equal(np.isfinite(sums.rewards), [True, False, True])
