"""The value-loss network: properties by construction, starting points, refusals."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metaevo.config import ConfigError, from_dict
from metaevo.parts import value_loss
from metaevo.parts.value_loss import ValueLossNetwork
from purerl.types import Context

INPUTS = ("error", "signed_log_error", "target", "old_prediction", "old_error")
number = st.floats(-50, 50, width=32)


@cache
def built(config):
    """The part's loss and slope, compiled for batches, and three points of its space."""
    part = config
    axes = (None, None, 0, 0, 0)
    loss = jax.jit(jax.vmap(part.apply, in_axes=axes))
    slope = jax.jit(jax.vmap(jax.grad(part.apply, argnums=2), in_axes=axes))
    if config.start == "squared":
        count = 1 if config.form == "network" else 3  # distilling is slow
        keys = jax.random.split(jax.random.key(0), count)
        points = jax.device_get(jax.jit(jax.vmap(part.init))(keys))
        return loss, slope, [jax.tree.map(lambda leaf: leaf[i], points) for i in range(count)]  # noqa: B023
    shapes = jax.eval_shape(part.init, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
    return loss, slope, [perturbed(zeros, seed) for seed in range(3)]


def perturbed(meta_params, seed):
    """A point as evolution might make it: every parameter moved."""
    leaves, structure = jax.tree.flatten(meta_params)
    rng = np.random.default_rng(seed)
    moved = [leaf + rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.tree.unflatten(structure, moved)


def grid(*values):
    """Arguments for `n` predictions with constants for the rest."""
    size = max(np.size(value) for value in values)
    return [np.broadcast_to(np.asarray(value, np.float32), size) for value in values]


CONVEX = [
    ValueLossNetwork((6, 5), activation="elu", convex=True, even=True,
           inputs=("error", "old_prediction", "target")),
    ValueLossNetwork((6, 5), activation="softplus", convex=True, form="additive", error_scale=0.3),
]  # fmt: skip


@pytest.mark.parametrize("config", CONVEX, ids=lambda config: config.activation)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**16), target=number, old=number, ends=st.tuples(number, number))
def test_convex_in_the_prediction(config, seed, target, old, ends):
    loss, _, (meta_params, *_) = built(config)
    low, high = ends
    weight = np.linspace(0, 1, 9, dtype=np.float32)
    predictions = np.append(weight * low + (1 - weight) * high, [low, high])
    meta_params = perturbed(meta_params, seed)
    values = np.asarray(loss(meta_params, None, *grid(predictions, target, old)), np.float64)
    chord = weight * values[-2] + (1 - weight) * values[-1]
    assert (values[:9] <= chord + 1e-3 * (1 + np.abs(values).max())).all()


EVEN = [
    ValueLossNetwork((5,), even=True, form="multiplicative", inputs=("signed_log_error", "target")),
    ValueLossNetwork((5,), even=True, zero_at_zero=True, convex=True, activation="softplus"),
]


@pytest.mark.parametrize("config", EVEN)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**16), error=number, target=number, old=number)
def test_even_and_zero_at_zero(config, seed, error, target, old):
    loss, slope, (meta_params, *_) = built(config)
    meta_params = perturbed(meta_params, seed)
    # Small whole numbers, so that target + error - target is the error.
    error, target = round(error), round(target)
    predictions = np.array([target + error, target - error, target])
    up, down, zero = np.asarray(loss(meta_params, None, *grid(predictions, target, old)))
    assert up == pytest.approx(down, rel=1e-5)
    # The value at zero is computed twice, by XLA perhaps in different orders: up to the rounding
    # errors of sums of such weights and inputs.
    sums = [sum(np.abs(leaf).sum() for leaf in layer.values()) for layer in meta_params]
    rounding = 4 * np.finfo(np.float32).eps * np.prod(sums) * (1 + abs(target) + abs(old))
    assert abs(zero) <= rounding * config.zero_at_zero
    slopes = np.asarray(slope(meta_params, None, *grid(predictions, target, old)))
    assert slopes[0] == pytest.approx(-slopes[1], rel=1e-4, abs=1e-5)
    assert slopes[2] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(("inputs", "form"), [(("error",), "multiplicative"), (INPUTS, "additive")])
def test_corrections_start_exactly_at_squared_error(inputs, form):
    config = ValueLossNetwork(inputs=inputs, form=form, start="squared", error_scale=3.0)
    loss, slope, points = built(config)
    predictions = np.linspace(-9, 9, 37)
    for meta_params in points:
        arguments = meta_params, None, *grid(predictions, 1.0, 0.5)
        np.testing.assert_array_equal(
            loss(*arguments), 0.5 * np.square(np.float32(predictions) - 1)
        )
        np.testing.assert_allclose(slope(*arguments), predictions - 1.0, rtol=1e-6)
    leaves = [jax.tree.leaves(point)[1] for point in points[:2]]
    assert not np.array_equal(*leaves)  # the hidden layers differ nevertheless


@pytest.mark.long
@pytest.mark.parametrize(
    "config",
    [
        ValueLossNetwork(start="squared"),
        ValueLossNetwork(
            start="squared", error_scale=10.0, inputs=("error", "target"), zero_at_zero=True
        ),
    ],
    ids=["default", "scaled"],
)
def test_distilled_start_is_close_to_squared_error(config):
    _, slope, (meta_params, *_) = built(config)
    error = config.error_scale * np.linspace(-3, 3, 61)
    for target in (-1.0, 0.0, 1.0):
        target *= config.error_scale
        slopes = slope(meta_params, None, *grid(target + error, target, target))
        assert np.abs(slopes - error).max() < 0.25 * config.error_scale


def test_inputs_match_their_names():
    config = ValueLossNetwork((), inputs=INPUTS, error_scale=2.0)
    loss, _, _ = built(config)
    prediction, target, old = 3.0, -1.0, 0.5
    expected = [2.0, np.log1p(2.0), -0.5, 0.25, 0.75]
    for index, value in enumerate(expected):
        kernel = np.zeros((5, 1), np.float32)
        kernel[index] = 1.0
        meta_params = [{"kernel": kernel, "bias": np.zeros(1, np.float32)}]
        found = loss(meta_params, None, *grid([prediction], target, old))[0]
        assert found == pytest.approx(4.0 * value, rel=1e-6)  # in units of error_scale squared


@pytest.mark.parametrize(
    ("sizes", "activation", "form"),
    [((3,), "relu", "multiplicative"), ((2, 3, 4), "elu", "network")],
)
def test_finite_everywhere(sizes, activation, form):
    config = ValueLossNetwork(
        sizes, activation=activation, inputs=INPUTS, form=form, error_scale=0.5
    )
    loss, slope, points = built(config)
    numbers = [0.0, 1e-30, -1e-3, 1.0, -500.0, 1e4]
    arguments = [np.float32(leaf.ravel()) for leaf in np.meshgrid(numbers, numbers, numbers)]

    def total(meta_params):
        return loss(meta_params, None, *arguments).mean()

    found = [function(points[0], None, *arguments) for function in (loss, slope)]
    found += jax.tree.leaves(jax.jit(jax.grad(total))(points[0]))
    assert all(np.isfinite(each).all() for each in found)


@pytest.mark.parametrize(
    "settings",
    [
        {"inputs": []},
        {"inputs": ["error", "error"]},
        {"inputs": ["target"]},
        {"convex": True, "activation": "tanh"},
        {"convex": True, "activation": "relu", "inputs": ["signed_log_error"]},
        {"convex": True, "activation": "relu", "form": "multiplicative"},
    ],
)
def test_options_that_exclude_each_other_are_refused(settings):
    with pytest.raises(ConfigError):
        from_dict(ValueLossNetwork, settings)


# --- What it sees of time -----------------------------------------------------------------------


def at(config, meta_params, progress, num_updates, errors):
    context, errors = Context(None, progress, num_updates), np.asarray(errors, np.float32)
    target = np.ones_like(errors)
    apply = jax.jit(jax.vmap(config.apply, in_axes=(None, None, 0, 0, 0)))
    return np.asarray(apply(meta_params, context, target + errors, target, target))


def test_time_is_two_more_inputs():
    """Of a network without hidden layers: a weight of progress and one of log(N) / 10."""
    meta_params = [{"kernel": np.float32([[2.0], [3.0], [5.0]]), "bias": np.float32([7.0])}]
    for progress, num_updates in [(0.0, 1), (0.5, 100)]:
        found = at(
            ValueLossNetwork((), temporal=True), meta_params, progress, num_updates, [-1.0, 4.0]
        )
        time = 3.0 * progress + 5.0 * np.log(num_updates) / 10 + 7.0
        np.testing.assert_allclose(found, [time - 2.0, time + 8.0], rtol=1e-6)


@pytest.mark.parametrize("form", [pytest.param("network", marks=pytest.mark.long), "additive"])
def test_with_time_it_starts_at_the_same_squared_error(form, monkeypatch):
    monkeypatch.setattr(value_loss, "DISTILLATION_STEPS", 3)
    timeless = ValueLossNetwork((4,), form=form, start="squared")
    config = replace(timeless, temporal=True)
    key, errors = jax.random.key(0), np.linspace(-2, 2, 9)
    expected = at(timeless, timeless.init(key), 0.0, 1, errors)
    meta_params = config.init(key)
    assert meta_params[0]["kernel"].shape == (3, 4)
    for progress in (0.0, 0.9):
        found = at(config, meta_params, progress, 50, errors)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
