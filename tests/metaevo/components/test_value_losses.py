"""Curves and ablations of learned value losses."""

import numpy as np
import pytest

from metaevo.components import value_losses
from metaevo.components.component import LEARNED
from purerl import ppo
from purerl.parts import losses


def test_scale_and_slopes_of_a_known_loss():
    def steeper(meta_params, context, prediction, target, old_prediction):
        return 3.0 * losses.squared(meta_params, context, prediction, target, old_prediction)

    hyperparams = ppo.Hyperparams()
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(2, 500)).astype(np.float32)
    ratio = value_losses.scale_ratio(steeper, None, hyperparams, errors)
    assert ratio == pytest.approx(3.0, rel=1e-5)
    slopes = value_losses.slopes(steeper, None, hyperparams, errors)
    np.testing.assert_allclose(slopes, 3 * (errors[0] - errors[1]), rtol=1e-4, atol=1e-6)


def test_the_ablation_exchanges_the_scales():
    hyperparams = ppo.Hyperparams(vf_coef=0.5)
    ablation = value_losses.ablation_of_scale(hyperparams, 4.0, "vf_coef")
    found = {}
    for row in ablation.rows:
        shape, scale, clipping, coefficient = row.labels.values()
        found[shape, scale, clipping] = coefficient
        assert row.function == shape
        assert row.settings["vf_coef"] == coefficient
        assert row.settings.get("max_grad_norm") == (None if clipping else np.inf)
    for clipping in (True, False):
        assert found[LEARNED, LEARNED, clipping] == found["squared", "squared", clipping] == 0.5
        assert found["squared", LEARNED, clipping] == 2.0  # as steep as the learned one
        assert found[LEARNED, "squared", clipping] == 0.125
    assert len(ablation.rows) == 8
    assert ablation.more == {"scale_ratio": 4.0}


def test_the_sides_of_a_loss_by_hand():
    """Of L(e) = 3 e^2 + 0.4 e, with a target of 2 and an error of 0.5."""

    def loss(scale, context, prediction, target, old_prediction):
        error = prediction - target
        return scale * (3.0 * error**2 + 0.4 * error)

    sides = value_losses.sides_of(loss)
    found = [
        sides({"side": np.int32(i), "meta_params": 1.0}, None, 2.5, 2.0, 2.2)
        for i in range(len(value_losses.SIDES))
    ]
    expected = [0.95, 0.75, 0.75, 0.125, 0.325, 0.325, 0.125 + 0.4 * 0.5 / 6.0]
    expected += [0.125 + 0.2 * part for part in (0.1, 0.01, 0.001)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
