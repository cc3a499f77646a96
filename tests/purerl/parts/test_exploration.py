"""The schedule of epsilon-greedy exploration, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.parts import exploration

FRAMES = jnp.array([0.0, 100.0, 200.0, 400.0, 1000.0])


def test_epsilon_falls_on_a_line():
    own = exploration.Hyperparams(epsilon_start=1.0, epsilon_end=0.2)
    by_default = exploration.epsilon(own, FRAMES, 400.0)
    np.testing.assert_allclose(by_default, [1.0, 0.8, 0.6, 0.2, 0.2], rtol=1e-6)
    shorter = exploration.epsilon(own.replace(epsilon_decay_steps=100.0), FRAMES, 400.0)
    np.testing.assert_allclose(shorter, [1.0, 0.2, 0.2, 0.2, 0.2], rtol=1e-6)
    constant = exploration.Hyperparams(epsilon_start=0.3, epsilon_end=None)
    np.testing.assert_allclose(exploration.epsilon(constant, FRAMES, 400.0), [0.3] * 5, rtol=1e-6)


@pytest.mark.parametrize("end", [0.1, None])
def test_random_play_is_random(end):
    settings = exploration.Hyperparams(epsilon_start=0.5, epsilon_end=end)
    random = settings.random_play()
    assert jax.tree.structure(random) == jax.tree.structure(settings)
    np.testing.assert_array_equal(exploration.epsilon(random, FRAMES, 400.0), 1.0)
