import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import dqn, pqn, q_learning
from purerl.parts import exploration
from purerl.parts.policies import Categorical
from purerl.parts.q_networks import ActionValues, EpsilonGreedy

TIED = jnp.array([1.0, 3.0, -2.0, 3.0, 3.0])
KEYS = jax.random.split(jax.random.key(0), 3000)


def epsilon_greedy(values):
    return EpsilonGreedy(ActionValues(values), jnp.float32(1.0))


@pytest.mark.parametrize(
    ("policy", "best"),
    [
        (Categorical(TIED), [1, 3, 4]),
        (epsilon_greedy(TIED), [1, 3, 4]),
        (Categorical(jnp.full(5, jnp.nan)), [0, 1, 2, 3, 4]),
    ],
)
def test_the_key_breaks_ties(policy, best):
    actions = np.asarray(jax.jit(jax.vmap(policy.mode))(KEYS))
    frequency = np.bincount(actions, minlength=5) / len(KEYS)
    expected = np.isin(np.arange(5), best) / len(best)
    assert np.abs(frequency - expected).max() < 5 * 0.5 / np.sqrt(len(KEYS))
    assert frequency[expected == 0].sum() == 0


@pytest.mark.parametrize("make", [Categorical, epsilon_greedy])
def test_without_ties_the_key_does_not_matter(make):
    values = jax.random.normal(jax.random.key(1), (7, 4))
    for key in KEYS[:3]:
        np.testing.assert_array_equal(make(values).mode(key), np.argmax(values, axis=1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_value_of_an_action_is_independent_of_other_actions(bad):
    values = ActionValues(jnp.array([[1.0, bad, 2.0], [bad, 3.0, 4.0]]))
    action = jnp.array([2, 1])
    np.testing.assert_array_equal(values.of(action), [2.0, 3.0])
    slopes = jax.grad(lambda x: values._replace(values=x).of(action).sum())(values.values)
    np.testing.assert_array_equal(slopes, [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


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
