"""Curves of policy losses."""

import numpy as np
import pytest

from metaevo.components import policy_losses
from purerl import ppo


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_curve_of_the_clip_is_its_drift(advantage):
    """The clip's drift (Lu et al. 2022): relu((r - clip(r, 1 +- epsilon)) A)."""
    hyperparams = ppo.Hyperparams(clip_epsilon=0.2)
    curve = policy_losses.policy_curves({}, None, hyperparams, advantage)["clipped_surrogate"]
    ratio = np.asarray(curve.ratio)
    drift = np.maximum((ratio - np.clip(ratio, 0.8, 1.2)) * advantage, 0.0)
    np.testing.assert_allclose(curve.drift, drift, atol=3e-3)
