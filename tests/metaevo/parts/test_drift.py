from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaevo.parts.drift import Drift, clip_drift
from purerl import ppo
from purerl.parts import losses
from purerl.types import Context
from tests.metaevo.toy import drawn

HYPERPARAMS = ppo.Hyperparams(learning_rate=1e-2)
UNITS = 16


@cache
def built(config=Drift(UNITS, temporal=True)):  # noqa: B008 - immutable
    """The values and slopes, compiled for batches of 8 at any time, and the part."""

    def value_and_slope(meta_params, progress, num_updates, log_ratio, advantage):
        context = Context(HYPERPARAMS, progress, num_updates)
        both = jax.value_and_grad(config.apply, argnums=2)
        return both(meta_params, context, log_ratio, advantage)

    batched = jax.jit(jax.vmap(value_and_slope, in_axes=(None, None, None, 0, 0)))
    return batched, config


def parameters(seed, scale):
    return jax.device_get(drawn(built()[1], scale, seed))


numbers = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)  # compiled code flushes them
times = st.tuples(st.floats(0, 1, width=32), st.integers(1, 10**6))


@given(
    seed=st.integers(0, 2**16),
    scale=st.floats(1e-3, 1e3),
    points=st.lists(st.tuples(st.floats(-3, 3, width=32), numbers), min_size=8, max_size=8),
    time=times,
)
def test_the_drift_conditions_hold(seed, scale, points, time):
    batched, _ = built()
    log_ratio, advantage = np.array(points, np.float32).T
    meta_params, time = parameters(seed, scale), np.float32(time)
    surrogate = -np.exp(log_ratio.astype(np.float64)) * advantage
    loss, _ = batched(meta_params, *time, log_ratio, advantage)
    assert (np.asarray(loss) - surrogate >= -1e-5 * (1 + np.abs(surrogate))).all()
    for found in batched(meta_params, *time, np.zeros_like(log_ratio), advantage):
        np.testing.assert_array_equal(found, -advantage)


@given(
    seed=st.integers(0, 2**16),
    log_ratio=st.floats(-2, 2, width=32),
    advantage=st.floats(-5, 5, width=32),
    time=times,
)
def test_the_network_by_hand(seed, log_ratio, advantage, time):
    """hidden = (A + n/N B + log(N)/10 C) x."""
    batched, _ = built()
    meta_params = parameters(seed, 0.3)
    ratio = np.exp(np.float64(log_ratio))
    inputs = [log_ratio, log_ratio**2, 1 - ratio, (1 - ratio) ** 2]
    inputs = np.array(inputs + [each * advantage for each in inputs])
    of_time = np.array([1.0, time[0], np.log(time[1]) / 10])
    kernels = meta_params["hidden"].astype(np.float64).reshape(3, 8, UNITS)
    hidden = np.tanh(inputs @ np.tensordot(of_time, kernels, 1))
    expected = max(0.0, hidden @ meta_params["output"] - 1e-4) - ratio * advantage
    arguments = np.full(8, log_ratio, np.float32), np.full(8, advantage, np.float32)
    loss, _ = batched(meta_params, *np.float32(time), *arguments)
    np.testing.assert_allclose(loss, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("log_ratio", [20.0, -20.0, -90.0, 3e38])
def test_finite_for_extreme_ratios(log_ratio):
    """Beyond a log ratio of 20 either way the loss is constant."""
    batched, _ = built()
    advantage = np.array([-1e3, -1.0, -1e-6, 0.0, 1e-6, 1.0, 1e3, 7.0], np.float32)
    ratios = np.full_like(advantage, log_ratio)
    time = np.float32([0.5, 100])
    for scale in (1.0, 1e-8, 100.0):
        meta_params = parameters(1, scale)
        loss, slope = batched(meta_params, *time, ratios, advantage)
        assert np.isfinite(loss).all()
        assert np.isfinite(slope).all()
        if abs(log_ratio) > 20:
            np.testing.assert_array_equal(slope, 0)
            edge, _ = batched(meta_params, *time, np.clip(ratios, -20, 20), advantage)
            np.testing.assert_array_equal(loss, edge)

    def total(meta_params):
        return jnp.mean(batched(meta_params, *time, ratios, advantage)[0])

    gradient = jax.jit(jax.grad(total))(parameters(2, 1e-8))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@given(log_ratio=st.floats(-2, 2, width=32), advantage=st.floats(-5, 5, width=32))
def test_the_clip_is_the_surrogate_with_this_drift(log_ratio, advantage):
    expected = losses.clipped_surrogate(None, Context(HYPERPARAMS), log_ratio, advantage)
    found = clip_drift(jnp.float32(log_ratio), advantage, 0.2) - np.exp(log_ratio) * advantage
    assert found == pytest.approx(float(expected), rel=1e-5, abs=1e-5)


@pytest.mark.long
def test_started_from_the_clip_it_is_close_to_the_clip():
    batched, part = built(Drift(128, "clip"))
    meta_params = jax.device_get(jax.jit(part.init)(jax.random.key(0)))
    ratio, advantage = (
        each.ravel().astype(np.float32)
        for each in np.meshgrid(np.linspace(0.6, 1.6, 101), [-2, -1, -0.5, 0.5, 1, 2])
    )
    log_ratio = np.log(ratio)
    loss, slope = batched(meta_params, 0.0, 1.0, log_ratio, advantage)
    clip = jax.vmap(jax.value_and_grad(losses.clipped_surrogate, 2), (None, None, 0, 0))
    wanted, wanted_slope = jax.jit(clip)(None, Context(HYPERPARAMS), log_ratio, advantage)
    assert np.abs(loss - wanted).max() < 0.06
    assert np.abs(loss - wanted).mean() < 0.01
    # A kink is rounded by a smooth network: there only the slopes differ by much.
    far = np.minimum(np.abs(ratio - 0.8), np.abs(ratio - 1.2)) > 0.06
    errors = np.abs(slope - wanted_slope) / np.abs(advantage)
    assert errors[far].mean() < 0.1
    assert errors[far].max() < 0.5
