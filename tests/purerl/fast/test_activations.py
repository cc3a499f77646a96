"""Activations against NumPy in double precision, the hyperbolic tangent also in closed forms.

The tests run with the arithmetic for CPUs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.fast.arithmetic import ACTIVATIONS, tanh


def test_accuracy():
    """Within six units in the last place (4.4 with fused multiplications, 5.5 without)."""
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.logspace(-35, 1, 100_001)])
    x = np.concatenate([x, -x]).astype(np.float32)
    expected = np.tanh(x.astype(np.float64))
    found = np.asarray(jax.jit(tanh)(x), np.float64)
    assert (np.abs(found - expected) <= 6 * np.spacing(np.abs(expected).astype(np.float32))).all()
    assert (np.abs(found) <= 1.0).all()
    np.testing.assert_array_equal(tanh(-x), -tanh(x))


def test_extremes():
    found = np.asarray(tanh(jnp.array([jnp.inf, -jnp.inf, jnp.nan, 0.0, 1e38, 1e-36])))
    np.testing.assert_allclose(found, [1.0, -1.0, np.nan, 0.0, 1.0, 0.0], rtol=3e-7, atol=1e-35)
    slopes = jax.vmap(jax.grad(tanh))(jnp.array([jnp.inf, -1e38, 0.0, jnp.nan]))
    np.testing.assert_allclose(slopes, [0.0, 0.0, 1.0, np.nan], atol=4e-7)


@pytest.mark.parametrize("derive", [jax.grad, jax.jacfwd])
def test_derivatives(derive):
    """1 - t^2, then -2 t (1 - t^2), then (6 t^2 - 2) (1 - t^2)."""
    x = jnp.linspace(-4.0, 4.0, 41)
    t = np.tanh(np.asarray(x, np.float64))
    closed_forms = (1 - t**2, -2 * t * (1 - t**2), (6 * t**2 - 2) * (1 - t**2))
    function = tanh
    for expected in closed_forms:
        function = derive(function)
        np.testing.assert_allclose(jax.vmap(function)(x), expected, rtol=2e-5, atol=2e-6)


def test_the_others_by_their_formulas():
    x = np.linspace(-3, 3, 61)
    expected = {
        "relu": np.maximum(x, 0),
        "elu": np.where(x > 0, x, np.expm1(x)),
        "gelu": x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "silu": x / (1 + np.exp(-x)),
    }
    assert expected.keys() | {"tanh"} == ACTIVATIONS.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray(x)), values, rtol=1e-4, atol=1e-6)
