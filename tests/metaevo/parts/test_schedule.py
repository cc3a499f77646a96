from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaevo.parts import schedule
from metaevo.parts.schedule import Schedule
from purerl import dqn, ppo
from purerl.types import Context

HYPERPARAMS = ppo.Hyperparams(learning_rate=1e-2, gae_lambda=0.9)
PROGRESS = np.linspace(0, 1, 9, dtype=np.float32)
CHANGED = "learning_rate", "clip_epsilon", "entropy_coef", "gae_lambda"


@cache
def compiled(config):
    def at(meta_params, hyperparams, progress):
        return vars(config.apply(meta_params, Context(hyperparams, progress)))

    return jax.jit(jax.vmap(at, in_axes=(None, None, 0)))


def over_training(meta_params, hyperparams=HYPERPARAMS, **config):
    found = compiled(Schedule(**config))(meta_params, hyperparams, PROGRESS)
    return {name: np.asarray(found[name], np.float64) for name in CHANGED if name in found}


def parameters(values):
    rows = np.reshape(np.float32(values), (4, -1))
    rows = [dict(zip(schedule.COEFFICIENTS, row, strict=False)) for row in rows]
    return dict(zip(CHANGED, rows, strict=True))


@pytest.mark.parametrize("learner", [ppo, dqn])
def test_it_starts_at_the_constant(learner):
    hyperparams = learner.Hyperparams()
    meta_params = Schedule().init(jax.random.key(0))
    found = Schedule().apply(meta_params, Context(hyperparams, 0.7))
    assert jax.tree.structure(found) == jax.tree.structure(hyperparams)
    np.testing.assert_allclose(
        jax.tree.leaves(found), np.float32(jax.tree.leaves(hyperparams)), rtol=1e-6
    )


def test_the_formula():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 5))
    found = over_training(parameters(values), coefficients=5, unit=0.5)
    height = {
        name: 0.5 * np.polynomial.chebyshev.chebval(2.0 * PROGRESS - 1.0, row)
        for name, row in zip(CHANGED, values, strict=True)
    }
    for name in CHANGED[:3]:
        expected = getattr(HYPERPARAMS, name) * np.exp(height[name])
        np.testing.assert_allclose(found[name], expected, rtol=1e-4)
    logit = np.log(0.9 / 0.1) + height["gae_lambda"]
    np.testing.assert_allclose(found["gae_lambda"], 1 / (1 + np.exp(-logit)), rtol=1e-4)


@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=12, max_size=12),
    gae_lambda=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
)
def test_its_bounds(values, gae_lambda):
    hyperparams = HYPERPARAMS.replace(gae_lambda=gae_lambda)
    found = over_training(parameters(values), hyperparams)
    for name in CHANGED[:3]:
        ratio = found[name] / getattr(hyperparams, name)
        assert ((np.exp(-7.01) < ratio) & (ratio < np.exp(7.01))).all()
    traces = found["gae_lambda"]
    assert ((traces >= 0) & (traces <= 1 + 1e-6)).all()
    if gae_lambda in (0.0, 1.0):
        np.testing.assert_array_equal(traces, gae_lambda)
