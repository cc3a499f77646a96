import jax
import numpy as np
import pytest

from metaevo.config import ConfigError, from_dict
from metaevo.parts.value_loss import ValueLossNetwork
from purerl.types import Context
from tests.metaevo.toy import drawn

INPUTS = ("error", "signed_log_error", "target", "old_prediction", "old_error")


def compiled(part):
    axes = (None, None, 0, 0, 0)
    both = jax.vmap(jax.value_and_grad(part.apply, argnums=2), in_axes=axes)
    return jax.jit(both)


def batch(*values):
    return np.broadcast_arrays(*(np.asarray(value, np.float32) for value in values))


@pytest.mark.parametrize(
    ("inputs", "form", "temporal"),
    [(("error",), "multiplicative", False), (INPUTS, "additive", True)],
)
def test_it_starts_exactly_at_squared_error(inputs, form, temporal):
    part = ValueLossNetwork((4,), "tanh", inputs, 3.0, form, "squared", temporal)
    points = [part.init(jax.random.key(seed)) for seed in range(2)]
    predictions = np.linspace(-9, 9, 37, dtype=np.float32)
    for progress in (0.0, 0.9):
        context = Context(None, progress, num_updates=50)
        loss, slope = compiled(part)(points[0], context, *batch(predictions, 1.0, 0.5))
        np.testing.assert_array_equal(loss, 0.5 * np.square(predictions - 1))
        np.testing.assert_allclose(slope, predictions - 1.0, rtol=1e-6)
    assert (points[0][0]["kernel"] != points[1][0]["kernel"]).all()  # the hidden layers differ


def test_the_network_by_hand():
    """Without hidden layers, so that its weights are the inputs' factors."""
    part = ValueLossNetwork((), inputs=INPUTS, error_scale=2.0, temporal=True)
    prediction, target, old = 3.0, -1.0, 0.5
    context = Context(None, progress=0.5, num_updates=100)
    expected = [2.0, np.log1p(2.0), -0.5, 0.25, 0.75, 0.5, np.log(100) / 10]
    loss = compiled(part)
    for index, value in enumerate(expected):
        kernel = np.zeros((7, 1), np.float32)
        kernel[index] = 1.0
        meta_params = [{"kernel": kernel, "bias": np.full(1, 7.0, np.float32)}]
        found, _ = loss(meta_params, context, *batch([prediction], target, old))
        assert found[0] == pytest.approx(4.0 * (value + 7.0), rel=1e-6)  # error_scale squared


@pytest.mark.parametrize(
    ("sizes", "activation", "form"),
    [((3,), "relu", "multiplicative"), ((2, 3), "elu", "network"), ((2,), "softplus", "additive")],
)  # fmt: skip
def test_finite_everywhere(sizes, activation, form):
    part = ValueLossNetwork(sizes, activation, INPUTS, error_scale=0.5, form=form)
    numbers = [0.0, 1e-30, -1e-3, 1.0, -500.0, 1e4]
    arguments = [np.float32(leaf.ravel()) for leaf in np.meshgrid(numbers, numbers, numbers)]

    def total(meta_params):
        both = jax.vmap(jax.value_and_grad(part.apply, argnums=2), in_axes=(None, None, 0, 0, 0))
        loss, slope = both(meta_params, None, *arguments)
        return loss.mean(), (loss, slope)

    found = jax.jit(jax.value_and_grad(total, has_aux=True))(drawn(part, 1.0))
    assert all(np.isfinite(each).all() for each in jax.tree.leaves(found))


@pytest.mark.parametrize(
    "settings",
    [
        {"inputs": []},
        {"inputs": ["error", "error"]},
        {"inputs": ["target"]},
        {"activation": "sin"},
        {"start": "squared"},
    ],
)
def test_options_that_exclude_each_other_are_refused(settings):
    with pytest.raises(ConfigError):
        from_dict(ValueLossNetwork, settings)
