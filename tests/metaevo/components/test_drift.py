"""The drift network: its conditions for any parameters, its start, extreme inputs."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaevo.components.drift import Config, clip_drift, make
from purerl import ppo
from purerl.parts import losses
from purerl.types import Context

HYPERPARAMS = ppo.Hyperparams(learning_rate=1e-2)
UNITS = 16


@cache
def built(start="random", hidden_size=UNITS):
    """The slot function's values and slopes, compiled for batches of any parts, and its parts."""
    component = make(Config(hidden_size, start))
    slope = jax.value_and_grad(component.apply, argnums=2)
    batched = jax.jit(jax.vmap(slope, in_axes=(None, None, 0, 0)))
    return batched, component


def parameters(seed, scale):
    """Any network, far from where one starts."""
    rng = np.random.default_rng(seed)
    shapes = {"hidden": (8, UNITS), "output": (UNITS,)}
    return {
        name: (scale * rng.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()
    }


numbers = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)  # compiled code flushes them


@cache
def temporal():
    """The same as `built`, of a network that sees time: at any progress and length."""
    component = make(Config(UNITS, temporal=True))

    def value_and_slope(meta_params, progress, num_updates, log_ratio, advantage):
        context = Context(HYPERPARAMS, progress, num_updates)
        both = jax.value_and_grad(component.apply, argnums=2)
        return both(meta_params, context, log_ratio, advantage)

    return jax.jit(jax.vmap(value_and_slope, in_axes=(None, None, None, 0, 0))), component


@given(
    seed=st.integers(0, 2**16),
    scale=st.floats(1e-3, 1e3),
    points=st.lists(st.tuples(st.floats(-3, 3, width=32), numbers), min_size=8, max_size=8),
    progress=st.floats(0, 1, width=32),
    num_updates=st.integers(1, 10**6),
)
def test_the_drift_conditions_hold_at_any_time(seed, scale, points, progress, num_updates):
    batched, _ = temporal()
    log_ratio, advantage = np.array(points, np.float32).T
    time = np.float32(progress), np.float32(num_updates)
    rng = np.random.default_rng(seed)
    hidden = (scale * rng.normal(size=(24, UNITS))).astype(np.float32)
    meta_params = {**parameters(seed, scale), "hidden": hidden}
    surrogate = -np.exp(log_ratio.astype(np.float64)) * advantage
    loss, _ = batched(meta_params, *time, log_ratio, advantage)
    assert (np.asarray(loss) - surrogate >= -1e-5 * (1 + np.abs(surrogate))).all()
    loss, slope = batched(meta_params, *time, np.zeros_like(log_ratio), advantage)
    np.testing.assert_array_equal(loss, -advantage)
    np.testing.assert_array_equal(slope, -advantage)


def test_what_the_network_sees_of_time():
    """Weights that depend on time: hidden = (A + n/N B + log(N)/10 C) x."""
    batched, component = temporal()
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(3, 8, UNITS)).astype(np.float32)
    meta_params = {**parameters(0, 1.0), "hidden": parts.reshape(24, UNITS)}
    assert jax.tree.map(jnp.shape, component.init(jax.random.key(0))) == jax.tree.map(
        jnp.shape, meta_params
    )
    log_ratio = np.linspace(-1, 1, 8, dtype=np.float32)
    advantage = np.ones_like(log_ratio)
    for progress, num_updates in [(0.0, 1), (0.25, 100), (1.0, 10_000)]:
        at_that_time = parts[0] + progress * parts[1] + np.log(num_updates) / 10 * parts[2]
        timeless = {**meta_params, "hidden": at_that_time}
        expected, _ = built()[0](timeless, None, log_ratio, advantage)
        time = np.float32(progress), np.float32(num_updates)
        loss, _ = batched(meta_params, *time, log_ratio, advantage)
        np.testing.assert_allclose(loss, expected, rtol=1e-3, atol=1e-4)


@given(
    log_ratio=st.floats(-2, 2, width=32),
    advantage=st.floats(-5, 5, width=32),
    seed=st.integers(0, 2**16),
)
def test_the_network_by_hand(seed, log_ratio, advantage):
    batched, _ = built()
    meta_params = parameters(seed, 0.5)
    ratio = np.exp(np.float64(log_ratio))
    inputs = [log_ratio, log_ratio**2, 1 - ratio, (1 - ratio) ** 2]
    inputs = np.array(inputs + [each * advantage for each in inputs])
    hidden = np.tanh(inputs @ meta_params["hidden"].astype(np.float64))
    expected = max(0.0, hidden @ meta_params["output"] - 1e-4) - ratio * advantage
    arguments = np.full(8, log_ratio, np.float32), np.full(8, advantage, np.float32)
    loss, _ = batched(meta_params, None, *arguments)
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("log_ratio", [20.0, -20.0, -90.0, 3e38])
def test_finite_for_extreme_ratios(log_ratio):
    """Beyond a log ratio of 20 either way the loss is constant."""
    batched, component = built()
    advantage = np.array([-1e3, -1.0, -1e-6, 0.0, 1e-6, 1.0, 1e3, 7.0], np.float32)
    ratios = np.full_like(advantage, log_ratio)
    for scale in (1.0, 1e-8, 100.0):
        meta_params = parameters(1, scale)
        loss, slope = batched(meta_params, None, ratios, advantage)
        assert np.isfinite(loss).all()
        assert np.isfinite(slope).all()
        if abs(log_ratio) > 20:
            np.testing.assert_array_equal(slope, 0)
            edge, _ = batched(meta_params, None, np.clip(ratios, -20, 20), advantage)
            np.testing.assert_array_equal(loss, edge)

    def total(meta_params):
        return jnp.mean(jax.vmap(component.apply, (None, None, 0, 0))(meta_params, None, x, a))

    x, a = ratios, advantage
    gradient = jax.jit(jax.grad(total))(parameters(2, 1e-8))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@given(log_ratio=st.floats(-2, 2, width=32), advantage=st.floats(-5, 5, width=32))
def test_the_clip_is_the_surrogate_with_this_drift(log_ratio, advantage):
    expected = losses.clipped_surrogate(None, Context(HYPERPARAMS), log_ratio, advantage)
    found = clip_drift(jnp.float32(log_ratio), advantage, 0.2) - np.exp(log_ratio) * advantage
    assert found == pytest.approx(float(expected), rel=1e-5, abs=1e-5)


# --- Started from PPO's clip --------------------------------------------------------------------


@pytest.mark.long
def test_started_from_the_clip_it_is_close_to_the_clip():
    batched, component = built("clip", 128)
    meta_params = jax.device_get(jax.jit(component.init)(jax.random.key(0)))
    ratio, advantage = (
        each.ravel().astype(np.float32)
        for each in np.meshgrid(np.linspace(0.6, 1.6, 101), [-2, -1, -0.5, 0.5, 1, 2])
    )
    log_ratio = np.log(ratio)
    slope = jax.value_and_grad(losses.clipped_surrogate, argnums=2)
    clip = jax.jit(jax.vmap(slope, in_axes=(None, None, 0, 0)))
    (loss, slope), (wanted, wanted_slope) = (
        function(parameters, Context(HYPERPARAMS), log_ratio, advantage)
        for function, parameters in ((batched, meta_params), (clip, None))
    )
    assert np.abs(loss - wanted).max() < 0.06
    assert np.abs(loss - wanted).mean() < 0.01
    # A kink is rounded by a smooth network: there only the slopes differ by much.
    far = np.minimum(np.abs(ratio - 0.8), np.abs(ratio - 1.2)) > 0.06
    errors = np.abs(slope - wanted_slope) / np.abs(advantage)
    assert errors[far].mean() < 0.1
    assert errors[far].max() < 0.5
