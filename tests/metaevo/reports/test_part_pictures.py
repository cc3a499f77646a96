"""Slopes of learned value losses."""

import numpy as np
import pytest

from metaevo.reports.parts import value_loss as value_losses
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
