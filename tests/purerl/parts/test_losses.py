import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from purerl.parts import losses
from purerl.ppo import Hyperparams
from purerl.types import Context

HYPERPARAMS = Hyperparams(
    clip_epsilon=0.25,
    clip_epsilon_high=0.4,
    kl_coef=2.0,
    apa_temperature=2.0,
    value_clip_epsilon=0.3,
    huber_delta=0.8,
    dpo_alpha=1.5,
    dpo_beta=0.5,
    expectile=0.75,
    loss_slope=0.25,
)
CONTEXT = Context(HYPERPARAMS)
numbers = st.floats(-4, 4, width=32)


def clipped(prediction, target, old):
    moved = min(max(prediction, old - 0.3), old + 0.3)
    return max((prediction - target) ** 2, (moved - target) ** 2) / 2


def huber(prediction, target, old):
    error = abs(prediction - target)
    return error**2 / 2 if error <= 0.8 else 0.8 * error - 0.32


def expectile(prediction, target, old):
    return (0.75 if prediction < target else 0.25) * (prediction - target) ** 2


def sloped(prediction, target, old):
    return (prediction - target) ** 2 / 2 + (prediction - target) / 4


def squared(prediction, target, old):
    return (prediction - target) ** 2 / 2


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (losses.squared, squared),
        (losses.clipped_squared, clipped),
        (losses.huber, huber),
        (losses.expectile, expectile),
        (losses.sloped_squared, sloped),
    ],
)
@given(prediction=numbers, target=numbers, old=numbers)
def test_value_losses(loss, expected, prediction, target, old):
    value = loss(None, CONTEXT, *(jnp.float32(x) for x in (prediction, target, old)))
    assert value == pytest.approx(expected(prediction, target, old), rel=1e-4, abs=1e-5)
    assert value.shape == ()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("loss", "ratio", "advantage", "expected", "slope"),
    [
        # the derivative with respect to the ratio vanishes where the clip holds
        (losses.clipped_surrogate, 1.0, 2.0, -2.0, -2.0),
        (losses.clipped_surrogate, 1.1, 2.0, -2.2, -2.0),
        (losses.clipped_surrogate, 1.5, 2.0, -2.5, 0.0),
        (losses.clipped_surrogate, 0.5, 2.0, -1.0, -2.0),
        (losses.clipped_surrogate, 1.5, -2.0, 3.0, 2.0),
        (losses.clipped_surrogate, 0.5, -2.0, 1.5, 0.0),
        (losses.clipped_surrogate, 0.9, -2.0, 1.8, 2.0),
        # up to 1.4, down to 0.75
        (losses.clip_higher, 1.3, 2.0, -2.6, -2.0),
        (losses.clip_higher, 1.5, 2.0, -2.8, 0.0),
        (losses.clip_higher, 0.8, -2.0, 1.6, 2.0),
        (losses.clip_higher, 0.5, -2.0, 1.5, 0.0),
        (losses.clip_higher, 1.5, -2.0, 3.0, 2.0),
        # 2 (ratio - 1 - log ratio) - ratio * advantage: at 2 and 1/2 with log 2 = 0.693147
        (losses.kl_penalty, 1.0, 3.0, -3.0, -3.0),
        (losses.kl_penalty, 2.0, 1.0, 2 * 0.306853 - 2.0, 2 * 0.5 - 1.0),
        (losses.kl_penalty, 0.5, -1.0, 2 * 0.193147 + 0.5, 2 * -1.0 + 1.0),
        # |advantage| / 0.5 (ratio - 1)^2 - ratio * advantage: flat at 1.25 and at 0.75
        (losses.spo, 1.0, 2.0, -2.0, -2.0),
        (losses.spo, 1.25, 2.0, 0.25 - 2.5, 0.0),
        (losses.spo, 1.5, 2.0, 1.0 - 3.0, 2.0),
        (losses.spo, 0.75, -2.0, 0.25 + 1.5, 0.0),
        # (log ratio - advantage / 2)^2 / 2
        (losses.apa, 1.0, 2.0, 0.5, -1.0),
        (losses.apa, 2.0, 1.0, 0.5 * 0.193147**2, 0.193147 / 2),
        (losses.apa, 0.5, -1.0, 0.5 * 0.193147**2, -0.193147 / 0.5),
    ],
)
def test_surrogates(loss, ratio, advantage, expected, slope):
    """By hand, with a clip of 0.25 below and 0.4 above, and a penalty and a temperature of 2."""

    def of_ratio(ratio):
        return loss(None, CONTEXT, jnp.log(ratio), jnp.float32(advantage))

    value, derivative = jax.value_and_grad(of_ratio)(jnp.float32(ratio))
    assert value == pytest.approx(expected, rel=1e-5)
    assert derivative == pytest.approx(slope, rel=1e-5, abs=1e-5)


@given(log_ratio=st.floats(-1, 1, width=32), advantage=numbers)
def test_dpo(log_ratio, advantage):
    ratio = np.exp(log_ratio)
    if advantage >= 0:
        x = (ratio - 1) * advantage
        drift = max(0.0, x - 1.5 * np.tanh(x / 1.5))
    else:
        x = log_ratio * advantage
        drift = max(0.0, x - 0.5 * np.tanh(x / 0.5))
    value = losses.dpo(None, CONTEXT, jnp.float32(log_ratio), jnp.float32(advantage))
    assert value == pytest.approx(-(ratio * advantage - drift), rel=1e-4, abs=1e-4)
