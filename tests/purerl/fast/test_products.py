import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.fast import arithmetic, switch
from purerl.parts import networks

DIMENSIONS = (((1,), (0,)), ((), ()))


@pytest.mark.parametrize(
    ("batch", "inputs", "outputs"),
    [((5,), 3, 7), ((5,), 7, 3), ((2, 3), 9, 7), ((), 7, 8)],
)
def test_layers_match_flax(batch, inputs, outputs):
    """Outputs, and gradients of weights, bias and inputs; for any number of leading axes.

    Few inputs, few outputs, tall and wide weights.
    """
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (*batch, inputs))
    weights = jax.random.normal(keys[1], (*batch, outputs))
    ours, flax = networks.dense(outputs, networks.LECUN_NORMAL), nn.Dense(outputs)
    params = ours.init(jax.random.key(1), x)
    np.testing.assert_allclose(ours.apply(params, x), flax.apply(params, x), rtol=1e-5, atol=1e-6)

    def loss(layer, params, x):
        return jnp.sum(jnp.sin(layer.apply(params, x)) * weights)

    found, expected = (
        jax.jit(jax.grad(lambda params, x, layer=layer: loss(layer, params, x), (0, 1)))(params, x)
        for layer in (ours, flax)
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_second_derivatives():
    """Of a function of both gradients, by both arguments, against JAX's product."""
    inputs, outputs = 3, 7
    keys = jax.random.split(jax.random.key(0), 2)
    x, w = jax.random.normal(keys[0], (5, inputs)), jax.random.normal(keys[1], (inputs, outputs))

    def of_gradients(product):
        def function(x, w):
            of_x, of_w = jax.grad(lambda x, w: jnp.sum(jnp.sin(product(x, w))), (0, 1))(x, w)
            return jnp.sum(jnp.sin(of_x)) + jnp.sum(jnp.cos(of_w))

        return jax.jit(jax.grad(function, (0, 1)))(x, w)

    found = of_gradients(lambda x, w: arithmetic.dot_general(x, w, DIMENSIONS))
    for one, other in zip(found, of_gradients(jnp.matmul), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_products_are_jaxs_by_default(monkeypatch):
    monkeypatch.setattr(switch, "_in_use", False)
    keys = jax.random.split(jax.random.key(0), 2)
    x, w = jax.random.normal(keys[0], (5, 3)), jax.random.normal(keys[1], (3, 7))
    product = lambda x, w: arithmetic.dot_general(x, w, DIMENSIONS)  # noqa: E731
    np.testing.assert_array_equal(product(x, w), x @ w)
    found, expected = (jax.jvp(f, (x, w), (x, w)) for f in (product, jnp.matmul))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (3, 0), (9, 0)])
def test_empty_layers(inputs, outputs):
    x, w = jnp.ones((5, inputs)), jnp.ones((inputs, outputs))
    total = lambda x, w: jnp.sum(arithmetic.dot_general(x, w, DIMENSIONS))  # noqa: E731
    np.testing.assert_array_equal(arithmetic.dot_general(x, w, DIMENSIONS), x @ w)
    np.testing.assert_array_equal(jax.grad(total, 1)(x, w), jnp.zeros_like(w))
