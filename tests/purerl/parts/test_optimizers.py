"""Hand-written optimizers against their rules in NumPy."""

import jax
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


class AdamW(Adam):
    """Loshchilov & Hutter 2019, algorithm 2, with the decay times the learning rate."""

    def step(self, gradient, fraction=1.0):
        return super().step(gradient, fraction) - self.learning_rate * fraction * 0.3 * self.params


class Moments(Adam):
    """The clipped gradient and both moments, for the variants of Adam."""

    def step(self, gradient, fraction=1.0):
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        super().step(gradient)
        return -self.learning_rate * fraction * self.direction(gradient)

    @property
    def root(self):
        return np.sqrt(self.v / (1 - 0.999**self.t)) + self.epsilon


class NAdam(Moments):
    """Dozat 2016, algorithm 2 with a constant mu."""

    def direction(self, gradient):
        ahead = 0.9 * self.m / (1 - 0.9 ** (self.t + 1)) + 0.1 * gradient / (1 - 0.9**self.t)
        return ahead / self.root


class AMSGrad(Moments):
    """Reddi et al. 2018, algorithm 2, with Adam's corrections of the bias."""

    largest = 0.0

    def direction(self, gradient):
        self.largest = np.maximum(self.largest, self.root)
        return self.m / (1 - 0.9**self.t) / self.largest


class RAdam(Moments):
    """Liu et al. 2020, algorithm 2, which rectifies from rho = 5 on as their code does."""

    def direction(self, gradient):
        limit = 2 / (1 - 0.999) - 1
        rho = limit - 2 * self.t * 0.999**self.t / (1 - 0.999**self.t)
        if rho < 5:
            return self.m / (1 - 0.9**self.t)
        r = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        return np.sqrt(r) * self.m / (1 - 0.9**self.t) / self.root


class Lion(Adam):
    """Chen et al. 2023, program 1."""

    def step(self, gradient, fraction=1.0):
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        direction = np.sign(0.9 * self.m + 0.1 * gradient)
        self.m = 0.99 * self.m + 0.01 * gradient
        return -self.learning_rate * fraction * (direction + 0.3 * self.params)


class ScheduleFree(Adam):
    """Defazio et al. 2024, algorithm 1 (there with the bias in the learning rate)."""

    x = z = total = 0.0

    def step(self, gradient, fraction=1.0):
        gradient = gradient * min(1.0, self.max_norm / np.sqrt(np.sum(gradient**2)))
        self.t += 1
        self.v = 0.999 * self.v + 0.001 * gradient**2
        root = np.sqrt(self.v / (1 - 0.999**self.t)) + self.epsilon
        self.z = self.z - self.learning_rate * gradient / root
        self.total += self.learning_rate**2
        share = self.learning_rate**2 / self.total
        self.x = (1 - share) * self.x + share * self.z
        return 0.9 * self.x + 0.1 * self.z - self.params


RULES = {
    "adam": Adam, "momentum": Momentum, "rmsprop": RMSProp, "sgd": GradientDescent,
    "adamw": AdamW, "nadam": NAdam, "amsgrad": AMSGrad, "radam": RAdam, "lion": Lion,
    "schedule_free": ScheduleFree,
}  # fmt: skip
HYPERPARAMS = Hyperparams(
    learning_rate=0.1, final_learning_rate=0.2, max_grad_norm=0.5, adam_epsilon=1e-3,
    momentum=0.8, rmsprop_decay=0.7, rmsprop_epsilon=1e-3, weight_decay=0.3,
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
    anneals = name != "schedule_free"  # within an update of the learner
    for step in range(8):
        gradient = rng.normal(size=5) * 10.0 ** -(step % 3)
        tree = {"a": jnp.asarray(gradient[:3]), "b": jnp.asarray(gradient[3:])}
        reference.params = np.concatenate([params["a"], params["b"]])
        updates, state = optimizer.update(tree, state, params, **told(step / 7))
        expected = reference.step(gradient, fraction=1 - 0.8 * anneals * step / 7)
        actual = np.concatenate([updates["a"], updates["b"]])
        rounding = 2e-2 if name == "radam" else 1e-4  # its rho: 1999 less 1993 in float32
        np.testing.assert_allclose(actual, expected, rtol=rounding, atol=2e-6)
        params = {name: params[name] + updates[name] for name in params}


def test_schedule_free_anneals_from_update_to_update():
    """Its first step is the learning rate's, of the context with which it was made."""
    context = Context(HYPERPARAMS, jnp.float32(0.5))
    optimizer = optimizers.schedule_free_adam(None, context)
    params = jnp.zeros(2)
    updates, _ = optimizer.update(jnp.ones(2), optimizer.init(params), params, **told(0.5))
    np.testing.assert_allclose(updates, -0.1 * 0.6, rtol=1e-2)


def test_muon():
    """Jordan et al. 2024: five Newton-Schulz steps of a Nesterov momentum, 0.2 in size on average.

    A kernel of 2 x 2 filters is a matrix of 4 inputs; biases and heads take NAdam's steps.
    """
    rng = np.random.default_rng(0)
    torso = {"Conv_0": {"kernel": (2, 2, 1, 3), "bias": (3,)}, "Dense_1": {"kernel": (5, 3)}}
    shapes = {"actor_torso": torso, "policy_head": {"kernel": (3, 2)}}
    is_shape = {"is_leaf": lambda x: isinstance(x, tuple)}
    params = {"params": jax.tree.map(jnp.zeros, shapes, **is_shape)}
    context = Context(HYPERPARAMS.replace(max_grad_norm=jnp.inf))
    muon, nadam = (optimizers.HAND_WRITTEN[name](None, context) for name in ("muon", "nadam"))
    state, nadams = muon.init(params), nadam.init(params)
    momenta = jax.tree.map(lambda x: np.zeros(x.shape), params)
    for t in range(1, 4):
        gradient = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), params)
        updates, state = muon.update(gradient, state, params, **told(0.0))
        expected, nadams = nadam.update(gradient, nadams, params, **told(0.0))
        momenta = jax.tree.map(lambda m, g: 0.95 * m + 0.05 * g, momenta, gradient)
        for module, name, matrix in (("Conv_0", "kernel", (4, 3)), ("Dense_1", "kernel", (5, 3))):
            of = [
                tree["params"]["actor_torso"][module][name] for tree in (momenta, gradient, updates)
            ]
            m, g, actual = (np.asarray(each).reshape(matrix) for each in of)
            x = 0.95 * m / (1 - 0.95 ** (t + 1)) + 0.05 * g / (1 - 0.95**t)
            x = x / (np.linalg.norm(x) + 1e-3)
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x - (4.775 * a - 2.0315 * a @ a) @ x
            np.testing.assert_allclose(actual, -0.1 * 0.2 * np.sqrt(matrix[0]) * x, rtol=1e-3)
            np.testing.assert_allclose(np.linalg.svd(x)[1], 1.0, atol=0.35)  # almost orthogonal
        for path in (("actor_torso", "Conv_0", "bias"), ("policy_head", "kernel")):
            a, b = updates["params"], expected["params"]
            for key in path:
                a, b = a[key], b[key]
            np.testing.assert_allclose(a, b, rtol=1e-5)


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
