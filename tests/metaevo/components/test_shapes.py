"""The sentence about a loss says what is known of losses that are known."""

import jax.numpy as jnp
import pytest

from metaevo.components import shapes
from metaevo.components.value_losses import steepness_text
from purerl import ppo
from purerl.parts import losses

OBSERVED = {"error": 2.0, "target": 5.0, "steepness": 15.2}


def tilted(meta_params, context, prediction, target, old_prediction):
    """Lowest at error -tilt, where its slope 2 (error + tilt) is zero."""
    return (prediction - target + meta_params) ** 2


def value_loss(function, meta_params=None, observed=OBSERVED):
    return shapes.value_loss_sentence(function, meta_params, ppo.Hyperparams(), observed)


def test_the_minimum_and_the_slope_of_a_tilted_loss():
    assert value_loss(tilted, jnp.float32(0.1)) == (
        "The loss has its minimum at error -0.1 (errors of -2 to 2 that occur), its slope at zero "
        "error is 0.2 and it is 15 times as steep as squared error."
    )
    assert "minimum at error 0 (" in value_loss(losses.squared)
    assert "no minimum" in value_loss(tilted, jnp.float32(3.0))
    assert "rises all the way" in value_loss(tilted, jnp.float32(3.0))
    assert "the same at all errors" in value_loss(lambda m, c, p, t, o: 0.0 * p)
    assert "not finite" in value_loss(lambda m, c, p, t, o: jnp.log(p - t))


def test_what_is_not_known_is_not_said():
    text = value_loss(losses.squared, observed={})
    assert "errors of -1 to 1)" in text
    assert "occur" not in text
    assert "times" not in text
    assert "times" not in value_loss(losses.squared, observed={**OBSERVED, "steepness": 7.5e5})


def test_a_factor_at_errors_of_zero_is_no_finding():
    assert "15.2 times as steep as squared error" in steepness_text(15.2)
    assert "says little" in steepness_text(7.53e5)
    assert "all but flat" in steepness_text(1e-6)


@pytest.mark.parametrize("clip", [0.1, 0.2])
def test_the_reach_of_a_clipped_policy_loss(clip):
    hyperparams = ppo.Hyperparams(clip_epsilon=clip)
    text = shapes.policy_loss_sentence(losses.clipped_surrogate, None, hyperparams)
    assert f"up to {1 + clip:.3g} at an advantage of +1" in text
    assert f"down to {1 - clip:.3g} at -1" in text


def test_the_reach_of_a_policy_loss_without_bounds():
    text = shapes.policy_loss_sentence(lambda m, c, r, a: -jnp.exp(r) * a, None, ppo.Hyperparams())
    assert "up past 2" in text
    assert "down past 0.5" in text
