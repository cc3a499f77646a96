import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.fast.arithmetic import conv_general_dilated


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize(
    "settings",
    [
        {"padding": "VALID"},
        {"padding": "SAME"},
        {"padding": "SAME", "strides": (2, 3)},
        {"padding": ((2, 0), (1, 3)), "strides": 2},
        {"kernel_dilation": 2},
    ],
)
def test_layers_are_flax_s(batch, settings):
    """Outputs, and gradients of kernels, bias and images, for two agents with their own kernels."""
    ours = nn.Conv(5, (3, 2), conv_general_dilated=conv_general_dilated, **settings)
    flax = nn.Conv(5, (3, 2), **settings)
    x = jax.random.normal(jax.random.key(0), (2, *batch, 6, 7, 3))
    params = jax.vmap(lambda key: flax.init(key, x[0]))(jax.random.split(jax.random.key(1)))

    def results(layer):
        output = jax.vmap(layer.apply)(params, x)
        loss = lambda params, x: jnp.sum(jnp.sin(jax.vmap(layer.apply)(params, x)))  # noqa: E731
        return output, jax.grad(loss, (0, 1))(params, x)

    compiled = jax.jit(results, static_argnums=0)
    found, expected = (jax.tree.leaves(compiled(layer)) for layer in (ours, flax))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
