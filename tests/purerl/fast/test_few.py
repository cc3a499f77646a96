import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.fast import arithmetic
from purerl.parts.policies import Categorical

pytestmark = pytest.mark.usefixtures("gpu_layout")


@pytest.mark.parametrize("size", [1, 2, arithmetic.FEW, arithmetic.FEW + 1])
def test_values_and_derivatives_match_jax(size):
    x = jnp.asarray(100 * np.random.default_rng(size).normal(size=(50, size)), jnp.float32)
    for ours, reference in (
        (arithmetic.log_softmax, jax.nn.log_softmax),
        (arithmetic.total, lambda x: jnp.sum(x, axis=-1)),
    ):
        np.testing.assert_allclose(ours(x), reference(x), rtol=1e-5, atol=1e-4)
        found, expected = (
            jax.grad(lambda x, f=f: jnp.sum(jnp.sin(f(x))))(x) for f in (ours, reference)
        )
        np.testing.assert_array_equal(found, expected)


def test_the_first_of_equal_elements_is_the_largest():
    x = jnp.asarray(np.random.default_rng(0).integers(3, size=(200, 4)), jnp.float32)
    np.testing.assert_array_equal(arithmetic.argmax(x), jnp.argmax(x, axis=-1))


def test_drawn_actions_match_jax():
    key, logits = jax.random.key(0), jnp.asarray([[0.0, 1.0, -1.0]] * 500)
    expected = jax.random.categorical(key, logits)
    np.testing.assert_array_equal(Categorical(logits).sample(key), expected)
