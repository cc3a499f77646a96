"""Hand-written slot functions against their papers' equations, and the optimizer against NumPy."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given

from purerl.parts import losses
from purerl.ppo import Hyperparams

HYPERPARAMS = Hyperparams()
numbers = st.floats(-4, 4, width=32)


def clipped(prediction, target, old):
    moved = min(max(prediction, old - 0.2), old + 0.2)
    return max((prediction - target) ** 2, (moved - target) ** 2) / 2


def huber(prediction, target, old):
    error = abs(prediction - target)
    return error**2 / 2 if error <= 1 else error - 0.5


def squared(prediction, target, old):
    return (prediction - target) ** 2 / 2


@pytest.mark.parametrize(
    ("loss", "expected"),
    [(losses.squared, squared), (losses.clipped_squared, clipped), (losses.huber, huber)],
)
@given(prediction=numbers, target=numbers, old=numbers)
def test_value_losses(loss, expected, prediction, target, old):
    value = loss(None, HYPERPARAMS, *(jnp.float32(x) for x in (prediction, target, old)))
    assert value == pytest.approx(expected(prediction, target, old), rel=1e-4, abs=1e-5)
    assert value.shape == ()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "slope"),
    [  # the derivative with respect to the ratio vanishes where the clip holds
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.0),
        (1.5, 2.0, -2.4, 0.0),
        (0.5, 2.0, -1.0, -2.0),
        (1.5, -2.0, 3.0, 2.0),
        (0.5, -2.0, 1.6, 0.0),
        (0.9, -2.0, 1.8, 2.0),
    ],
)
def test_clipped_surrogate(ratio, advantage, expected, slope):
    def loss(ratio):
        return losses.clipped_surrogate(None, HYPERPARAMS, jnp.log(ratio), jnp.float32(advantage))

    value, derivative = jax.value_and_grad(loss)(jnp.float32(ratio))
    assert value == pytest.approx(expected, rel=1e-5)
    assert derivative == pytest.approx(slope, rel=1e-5)


@given(log_ratio=st.floats(-1, 1, width=32), advantage=numbers)
def test_dpo(log_ratio, advantage):
    ratio = np.exp(log_ratio)
    if advantage >= 0:
        x = (ratio - 1) * advantage
        drift = max(0.0, x - 2.0 * np.tanh(x / 2.0))
    else:
        x = log_ratio * advantage
        drift = max(0.0, x - 0.6 * np.tanh(x / 0.6))
    value = losses.dpo(None, HYPERPARAMS, jnp.float32(log_ratio), jnp.float32(advantage))
    assert value == pytest.approx(-(ratio * advantage - drift), rel=1e-4, abs=1e-4)


@given(prediction=numbers, target=numbers)
def test_sloped_squared(prediction, target):
    """Its minimum is the slope below the target."""
    hyperparams = HYPERPARAMS.replace(loss_slope=0.25)
    value, derivative = jax.value_and_grad(losses.sloped_squared, argnums=2)(
        None, hyperparams, jnp.float32(prediction), jnp.float32(target), jnp.float32(0)
    )
    error = prediction - target
    assert value == pytest.approx(error**2 / 2 + error / 4, rel=1e-4, abs=1e-4)
    assert derivative == pytest.approx(error + 0.25, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("slot", ["value_loss", "policy_loss"])
def test_all_take_their_constants_from_hyperparams_and_ignore_meta_params(slot):
    arguments = {"value_loss": (2.0, 3.0, 0.0), "policy_loss": (1.0, 0.5)}[slot]
    arguments = [jnp.float32(x) for x in arguments]
    for name, function in losses.HAND_WRITTEN[slot].items():
        value = function(None, HYPERPARAMS, *arguments)
        assert value == function({"anything": 1}, HYPERPARAMS, *arguments), name
        constants = {
            "clipped_squared": {"value_clip_epsilon": 5.0},
            "huber": {"huber_delta": 0.1},
            "clipped_surrogate": {"clip_epsilon": 5.0},
            "dpo": {"dpo_alpha": 0.1},
            "sloped_squared": {"loss_slope": 0.3},
        }
        if name in constants:
            changed = HYPERPARAMS.replace(**constants[name])
            assert function(None, changed, *arguments) != value, name
        else:
            assert name == "squared"


class Adam:
    """Global-norm clipping, then Adam (Kingma & Ba 2015, algorithm 1), in NumPy and float64."""

    def __init__(self, learning_rate, max_norm, epsilon):
        self.learning_rate, self.max_norm, self.epsilon = learning_rate, max_norm, epsilon
        self.t, self.m, self.v = 0, 0.0, 0.0

    def step(self, gradient, fraction=1.0):
        gradient = np.asarray(gradient, np.float64)
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m_hat, v_hat = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return -self.learning_rate * fraction * m_hat / (np.sqrt(v_hat) + self.epsilon)


@pytest.mark.parametrize("make", [losses.clipped_adam, losses.flat_clipped_adam])
def test_optimizer_is_adam_after_clipping_the_global_norm(make):
    hyperparams = Hyperparams(
        learning_rate=0.1, final_learning_rate=0.2, max_grad_norm=0.5, adam_epsilon=1e-3
    )
    optimizer = make(None, hyperparams)
    params = {"a": jnp.zeros(3), "b": jnp.zeros(2)}  # clipped by their common norm
    state = optimizer.init(params)
    reference = Adam(0.1, 0.5, 1e-3)
    rng = np.random.default_rng(0)
    for step in range(5):
        gradient = rng.normal(size=5) * 10.0 ** -(step % 3)
        tree = {"a": jnp.asarray(gradient[:3]), "b": jnp.asarray(gradient[3:])}
        progress = step / 4
        updates, state = optimizer.update(tree, state, params, progress=jnp.float32(progress))
        expected = reference.step(gradient, fraction=1 - 0.8 * progress)
        actual = np.concatenate([updates["a"], updates["b"]])
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_sgd_is_the_clipped_gradient_times_the_annealed_learning_rate():
    hyperparams = Hyperparams(learning_rate=0.1, final_learning_rate=0.5, max_grad_norm=10.0)
    optimizer = losses.clipped_sgd(None, hyperparams)
    for gradient, clipped in (([3.0, -4.0], [3.0, -4.0]), ([30.0, -40.0], [6.0, -8.0])):
        gradient = jnp.array(gradient)
        updates, _ = optimizer.update(gradient, optimizer.init(gradient), progress=0.5)
        np.testing.assert_allclose(updates, -0.1 * 0.75 * np.array(clipped), rtol=1e-6)


@pytest.mark.parametrize(
    ("progress", "final_fraction", "expected"),
    [(0.0, 0.0, 3.0), (0.5, 0.0, 1.5), (1.0, 0.0, 0.0), (0.5, 1.0, 3.0), (1.0, 0.1, 0.3)],
)
def test_learning_rate_is_linear_in_progress(progress, final_fraction, expected):
    optimizer = losses.scale_by_progress(3.0, final_fraction)
    updates, _ = optimizer.update(jnp.ones(()), optimizer.init(None), progress=progress)
    assert -updates == pytest.approx(expected)


def test_no_limit_of_the_gradient_norm():
    optimizer = losses.clipped_adam(None, Hyperparams(max_grad_norm=float("inf")))
    gradient = {"a": jnp.array([30.0, -40.0])}
    plain = optax.adam(2.5e-4, eps=1e-5)
    updates, _ = optimizer.update(gradient, optimizer.init(gradient), progress=0.0)
    expected, _ = plain.update(gradient, plain.init(gradient))
    np.testing.assert_allclose(updates["a"], expected["a"], rtol=1e-6)
