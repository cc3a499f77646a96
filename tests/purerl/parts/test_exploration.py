import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import dqn, pqn, q_learning
from purerl.parts import exploration

FRAMES = jnp.array([0.0, 100.0, 200.0, 400.0, 1000.0])


def test_epsilon_falls_on_a_line():
    by_default = exploration.epsilon(FRAMES, 400.0, 1.0, 0.2, None)
    np.testing.assert_allclose(by_default, [1.0, 0.8, 0.6, 0.2, 0.2], rtol=1e-6)
    shorter = exploration.epsilon(FRAMES, 400.0, 1.0, 0.2, 100.0)
    np.testing.assert_allclose(shorter, [1.0, 0.2, 0.2, 0.2, 0.2], rtol=1e-6)
    constant = exploration.epsilon(FRAMES, 400.0, 0.3, None, None)
    np.testing.assert_allclose(constant, [0.3] * 5, rtol=1e-6)


@pytest.mark.parametrize("learner", [dqn, pqn, q_learning])
@pytest.mark.parametrize("end", [0.1, None])
def test_random_play_is_random(learner, end):
    settings = learner.Hyperparams(epsilon_start=0.5, epsilon_end=end)
    random = settings.random_play()
    assert jax.tree.structure(random) == jax.tree.structure(settings)
    fall = random.epsilon_start, random.epsilon_end, random.epsilon_decay_steps
    np.testing.assert_array_equal(exploration.epsilon(FRAMES, 400.0, *fall), 1.0)
