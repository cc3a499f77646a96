import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.fast import arithmetic, switch
from purerl.fast.arithmetic import ACTIVATIONS, conv_general_dilated, orthogonal, tanh
from purerl.parts import networks
from purerl.parts.policies import Categorical


@pytest.mark.parametrize("size", [1, 2, arithmetic.FEW, arithmetic.FEW + 1])
@pytest.mark.usefixtures("gpu_layout")
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


@pytest.mark.usefixtures("gpu_layout")
def test_the_first_of_equal_elements_is_the_largest():
    x = jnp.asarray(np.random.default_rng(0).integers(3, size=(200, 4)), jnp.float32)
    np.testing.assert_array_equal(arithmetic.argmax(x), jnp.argmax(x, axis=-1))


@pytest.mark.usefixtures("gpu_layout")
def test_drawn_actions_match_jax():
    key, logits = jax.random.key(0), jnp.asarray([[0.0, 1.0, -1.0]] * 500)
    expected = jax.random.categorical(key, logits)
    np.testing.assert_array_equal(Categorical(logits).sample(key), expected)


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


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(4, 64), (64, 1), (256, 256), (3, 3, 4, 16)])
def test_kernels_are_orthogonal(shape):
    init = jax.jit(lambda key: orthogonal(2.0)(key, shape))
    kernel = np.asarray(init(jax.random.key(0)), np.float64)
    assert kernel.shape == shape
    matrix = kernel.reshape(-1, shape[-1]) / 2.0
    matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=2e-6)


def test_badly_conditioned_matrices_converge():
    # Square Gaussian matrices are the hard case: their smallest singular value can be tiny.
    keys = jax.random.split(jax.random.key(3), 512)
    kernels = jax.jit(jax.vmap(lambda key: orthogonal()(key, (32, 32))))(keys)
    kernels = np.asarray(kernels, np.float64)
    error = np.abs(np.swapaxes(kernels, 1, 2) @ kernels - np.eye(32)).max(axis=(1, 2))
    assert error.max() < 1e-5


def test_kernels_are_uniformly_distributed():
    # Haar measure on 2 x 2 matrices: the first column's angle is uniform, either handedness has
    # probability 1/2.
    keys = jax.random.split(jax.random.key(1), 4000)
    kernels = np.asarray(jax.vmap(lambda key: orthogonal()(key, (2, 2)))(keys))
    angle = np.arctan2(kernels[:, 1, 0], kernels[:, 0, 0])
    counts, _ = np.histogram(angle, bins=8, range=(-np.pi, np.pi))
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)
    assert abs(np.mean(np.linalg.det(kernels) > 0) - 0.5) < 5 * 0.5 / np.sqrt(4000)
