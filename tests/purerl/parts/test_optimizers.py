"""Hand-written optimizers against their rules in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.parts import optimizers
from purerl.ppo import Hyperparams
from purerl.types import Context


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


class Momentum(Adam):
    """Clipping, then the gradient plus a share of the last step (Polyak 1964)."""

    def step(self, gradient, fraction=1.0):
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        self.m = gradient + 0.8 * self.m
        return -self.learning_rate * fraction * self.m


class RMSProp(Adam):
    """Clipping, then division by the root of a running mean of squares (Tieleman & Hinton 2012)."""

    def step(self, gradient, fraction=1.0):
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        self.v = 0.7 * self.v + 0.3 * gradient**2
        return -self.learning_rate * fraction * gradient / np.sqrt(self.v + self.epsilon)


class GradientDescent(Adam):
    def step(self, gradient, fraction=1.0):
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        return -self.learning_rate * fraction * gradient


RULES = {"adam": Adam, "momentum": Momentum, "rmsprop": RMSProp, "sgd": GradientDescent}
HYPERPARAMS = Hyperparams(
    learning_rate=0.1, final_learning_rate=0.2, max_grad_norm=0.5, adam_epsilon=1e-3,
    momentum=0.8, rmsprop_decay=0.7, rmsprop_epsilon=1e-3,
)  # fmt: skip


def told(progress, frames=0.0):
    return Context(HYPERPARAMS, jnp.float32(progress), frames=jnp.float32(frames)).extra_args()


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    optimizer = optimizers.HAND_WRITTEN[name](None, Context(HYPERPARAMS))
    params = {"a": jnp.zeros(3), "b": jnp.zeros(2)}  # clipped by their common norm
    state = optimizer.init(params)
    reference = RULES[name](0.1, 0.5, 1e-3)
    rng = np.random.default_rng(0)
    for step in range(5):
        gradient = rng.normal(size=5) * 10.0 ** -(step % 3)
        tree = {"a": jnp.asarray(gradient[:3]), "b": jnp.asarray(gradient[3:])}
        updates, state = optimizer.update(tree, state, params, **told(step / 4))
        expected = reference.step(gradient, fraction=1 - 0.8 * step / 4)
        actual = np.concatenate([updates["a"], updates["b"]])
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("annealing_steps", "progress", "final_fraction", "expected"),
    [
        *((None, 0.0, 0.0, 3.0), (None, 0.5, 0.0, 1.5), (None, 1.0, 0.0, 0.0)),
        *((None, 0.5, 1.0, 3.0), (None, 1.0, 0.1, 0.3)),
        *((50.0, 0.25, 0.0, 1.5), (50.0, 0.75, 0.0, 0.0), (400.0, 1.0, 0.0, 2.25)),
    ],
)
def test_the_learning_rate_is_linear_in_time_then_constant(
    annealing_steps, progress, final_fraction, expected
):
    """Training takes 100 environment steps."""
    hyperparams = Hyperparams(
        learning_rate=3.0, final_learning_rate=final_fraction, annealing_steps=annealing_steps
    )
    optimizer = optimizers.scale_by_annealed_learning_rate(Context(hyperparams))
    where = told(progress, 100 * progress)
    updates, _ = optimizer.update(jnp.ones(()), optimizer.init(None), **where)
    assert -updates == pytest.approx(expected)
