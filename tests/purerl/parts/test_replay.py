import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import spaces

from purerl.envs.features import Features
from purerl.parts import replay
from purerl.parts.replay import Layout, Priorities
from purerl.types import Transition
from tests.purerl import probes

N = 2


def recorded(rng, length):
    """A stretch of `length` steps of N environments whose every number can be told apart."""
    time = np.arange(length)[:, None] * np.ones((1, N))
    env = np.ones((length, 1)) * np.arange(N)
    return Transition(
        obs=np.stack([time, env], -1).astype(np.float32),
        action=rng.integers(3, size=(length, N)).astype(np.int32),
        log_prob=None,
        reward=rng.normal(size=(length, N)).astype(np.float32),
        terminated=rng.random((length, N)) < 0.15,
        truncated=rng.random((length, N)) < 0.15,
        final_obs=np.stack([time + 0.5, env], -1).astype(np.float32),
    )


def filled(layout, steps, writes):
    ring = layout.empty(jnp.zeros(2), "float32")
    per_write = layout.train_interval // N
    write = jax.jit(layout.write)
    for index in range(writes):
        part = slice(index * per_write, (index + 1) * per_write)
        flat = jax.tree.map(lambda x, p=part: x[p].reshape(-1, *x.shape[2:]), steps)
        ring = write(ring, flat, jnp.int32(index))
    return ring


def brute_force(steps, t, n, n_step, gamma):
    """Reward, discount and the observation to bootstrap from, by the definition."""
    total, factor = 0.0, 1.0
    for k in range(t, t + n_step):
        total += factor * steps.reward[k, n]
        factor *= gamma
        if steps.terminated[k, n]:
            return total, 0.0, steps.final_obs[k, n]
        if steps.truncated[k, n]:
            break
    return total, factor, steps.final_obs[k, n]


@pytest.mark.parametrize(("writes", "n_step"), [(4, 1), (11, 3), (11, 4)])
def test_n_step_returns_of_all_drawable_rows(writes, n_step):
    layout = Layout(buffer_size=24, train_interval=4, num_envs=N, n_step=n_step)
    steps = recorded(np.random.default_rng(n_step), 2 * writes)
    ring = filled(layout, steps, writes)
    rows = jax.jit(layout.draw_uniformly, static_argnums=2)(
        jax.random.key(0), jnp.int32(writes), 2000
    )
    drawn = jax.tree.map(np.asarray, jax.jit(layout.read)(ring, rows, 0.9))
    kept = min(writes, 6) * 2  # steps
    expected = {(t, n) for t in range(2 * writes - kept, 2 * writes - n_step + 1) for n in range(N)}
    assert {(int(t), int(n)) for t, n in drawn.obs} == expected  # all of them and no other
    assert len(expected) == layout.drawable(jnp.int32(writes))
    for index in range(0, 2000, 7):
        t, n = drawn.obs[index].astype(int)
        reward, discount, final_obs = brute_force(steps, t, n, n_step, 0.9)
        assert drawn.reward[index] == pytest.approx(reward, abs=1e-5)
        assert drawn.discount[index] == pytest.approx(discount, abs=1e-6)
        np.testing.assert_array_equal(drawn.final_obs[index], final_obs)
        assert drawn.action[index] == steps.action[t, n]


def test_rows_are_drawn_with_equal_probability():
    layout = Layout(buffer_size=20, train_interval=4, num_envs=N, n_step=2)
    rows = layout.draw_uniformly(jax.random.key(1), jnp.int32(7), 18_000)
    counts = np.bincount(rows, minlength=20)
    waiting = [6, 7]  # of the newest write, the second, two rows have no successor yet
    assert not counts[waiting].any()
    drawn = np.delete(counts, waiting)
    assert np.abs(drawn - 1000).max() < 5 * 1000**0.5


def test_observations_keep_their_dtype():
    layout = Layout(buffer_size=4, train_interval=2, num_envs=2, n_step=1)
    ring = layout.empty(jnp.zeros((3, 3, 2)), "uint8")
    obs = jnp.arange(36.0).reshape(2, 3, 3, 2)
    flags = jnp.zeros(2, bool)
    steps = Transition(obs, jnp.zeros(2, jnp.int32), None, jnp.ones(2), flags, flags, obs + 100)
    ring = jax.jit(layout.write)(ring, steps, jnp.int32(3))
    assert ring.obs.dtype == ring.final_obs.dtype == jnp.uint8
    drawn = jax.jit(layout.read)(ring, jnp.array([3, 2]), 0.9)
    assert drawn.obs.dtype == drawn.final_obs.dtype == jnp.float32
    np.testing.assert_array_equal(drawn.obs, obs[::-1])
    np.testing.assert_array_equal(drawn.final_obs, obs[::-1] + 100)


def tree_of(values):
    values = jnp.asarray(values, jnp.float32)
    rows = jnp.arange(values.size)
    return replay.set_priorities(Priorities.empty(values.size), rows, values)


def test_rows_are_drawn_in_proportion_to_their_priorities():
    values = np.random.default_rng(0).random(50) ** 3
    values[[0, 7, 31, 49]] = 0.0
    tree = tree_of(values)
    draw = jax.jit(replay.draw, static_argnums=2)
    draws = [draw(tree, jax.random.key(seed), 500) for seed in range(20)]
    rows = np.concatenate([rows for rows, _ in draws])
    counts = np.bincount(rows, minlength=50)
    share = values / values.sum()
    assert not counts[[0, 7, 31, 49]].any()
    # one draw from each of equal shares: no row is further than two from its expectation
    for each, _ in draws:
        assert np.abs(np.bincount(each, minlength=50) - 500 * share).max() < 2
    np.testing.assert_allclose(counts / counts.sum(), share, atol=4 * 0.5 / 10_000**0.5)
    np.testing.assert_allclose(draws[0][1], share[draws[0][0]], rtol=1e-4)


def test_rounding_never_draws_a_row_without_priority():
    values = np.zeros(600)
    values[:3] = [1e6, 1e-3, 1.0]
    tree, draw = tree_of(values), jax.jit(replay.draw, static_argnums=2)
    for seed in range(2):
        rows, probability = draw(tree, jax.random.key(seed), 4096)
        assert set(np.asarray(rows)) <= {0, 1, 2}
        assert (probability > 0).all()


@pytest.mark.parametrize(
    ("scale", "exponent"),
    [(1e-30, 0.6), (1e-30, 50.0), (1.0, 0.0), (1.0, 0.6), (1e30, 1.0), (1e30, 50.0)],
)
def test_no_errors_exceed_float32(scale, exponent):
    """Whatever the errors, rows are drawn by finite priorities, with finite importance weights."""
    layout = Layout(buffer_size=32, train_interval=4, num_envs=N, n_step=1)
    errors = jnp.asarray(np.random.default_rng(0).normal(size=32) * scale, jnp.float32)
    tree = replay.with_errors(Priorities.empty(32), jnp.arange(32), errors, exponent, 1e-30)
    draw = jax.jit(layout.draw, static_argnums=3)
    for beta in (0.0, 1.0):
        key, written = jax.random.key(0), jnp.int32(8)
        rows, weight = draw(key, written, tree, 16, exponent=jnp.float32(beta))
        assert (tree.levels[0][rows] > 0).all()
        assert ((weight > 0) & (weight <= 1)).all()
    assert np.isfinite(tree.levels[-1]).all()
    if scale == 1.0 and exponent <= 1.0:
        np.testing.assert_allclose(tree.levels[0], abs(errors) ** exponent, rtol=1e-4)


class Shown(probes.Probe):
    def __init__(self, numbers, low, high, dtype=jnp.float32):
        super().__init__()
        self.numbers = jnp.asarray(numbers, dtype)
        self.box = spaces.Box(low, high, self.numbers.shape, dtype)

    def show(self, state):
        return self.numbers

    def observation_space(self, params):
        return self.box


@pytest.mark.parametrize(
    ("env", "fits"),
    [
        (Shown([0, 1, 255], 0, 255), True),
        (Shown([0, 1, 7], 0, 255, jnp.int32), True),
        (Shown([0, 1, 7], -jnp.inf, jnp.inf, jnp.uint8), True),
        (Shown([0, 1, 1], -jnp.inf, jnp.inf, jnp.bool_), True),
        (Shown([0, 1, 7], 0, 256, jnp.int32), False),
        (Shown([0, 1, 7], -1, 7, jnp.int32), False),
        (Shown([0, 1, 7], -jnp.inf, jnp.inf), False),
        (Shown([0, 0.5, 1], 0, 1), False),
        (Shown([0, 1, 1], np.zeros(3), np.array([1, 1, 300])), False),
    ],
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_uint8_needs_whole_numbers_that_fit(env, fits, is_wrapped):
    env = Features(env, flat=False) if is_wrapped else env
    replay.check_storage(env, "float32")
    if fits:
        replay.check_storage(env, "uint8")
    else:
        with pytest.raises(ValueError, match="store_observations = uint8"):
            replay.check_storage(env, "uint8")


def test_only_complete_rows_are_admitted():
    """Priorities are positive for exactly the rows that a uniform draw can return."""
    layout = Layout(buffer_size=16, train_interval=4, num_envs=N, n_step=3)
    draw = jax.jit(layout.draw_uniformly, static_argnums=2)
    tree, admit = Priorities.empty(layout.capacity), jax.jit(layout.admit)
    for written in range(11):
        tree = admit(tree, jnp.int32(written))
        rows = draw(jax.random.key(0), jnp.int32(written + 1), 1000)
        if layout.drawable(jnp.int32(written + 1)) > 0:
            allowed = np.isin(np.arange(16), rows)
        else:
            allowed = np.zeros(16, bool)
        np.testing.assert_array_equal(tree.levels[0] > 0, allowed)
        if written == 6:  # new rows begin at the largest priority that ever was
            tree = replay.set_priorities(tree, jnp.array([1]), jnp.array([5.0]))
    fresh = np.asarray(tree.levels[0])
    assert set(fresh[fresh > 0]) >= {5.0}
