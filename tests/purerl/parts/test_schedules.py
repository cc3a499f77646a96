from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import ppo
from purerl.parts import optimizers
from purerl.types import Context
from tests.purerl import probes
from tests.purerl.test_learners import LEARNERS

PROGRESS = [0.0, 0.25, 0.5, 1.0]


@pytest.mark.parametrize("progress", PROGRESS)
def test_the_hand_written_ones(progress):
    hyperparams = ppo.Hyperparams(learning_rate=0.5, clip_epsilon=0.25, entropy_coef=0.125)
    context = Context(hyperparams, progress)
    assert optimizers.constant_schedule(None, context) is hyperparams
    linear = optimizers.linear_schedule(None, context)
    assert linear == hyperparams.replace(
        clip_epsilon=0.25 * (1 - progress), entropy_coef=0.125 * (1 - progress)
    )
    cosine = optimizers.cosine_schedule(None, context)
    rate = 0.5 * np.cos(np.pi * progress / 2) ** 2  # (1 + cos x) / 2 = cos^2(x / 2)
    assert float(cosine.learning_rate) == pytest.approx(rate, abs=1e-7)
    assert cosine.replace(learning_rate=0.5) == hyperparams.replace(final_learning_rate=1.0)


def by_progress(meta_params, context):
    """Changes what each learner reads: at the start, in batches, in losses, in the optimizer."""
    share = meta_params * context.progress
    hyperparams = context.hyperparams.replace(
        learning_rate=(1.0 + share) * context.hyperparams.learning_rate, gamma=0.9 - share
    )
    if isinstance(hyperparams, ppo.Hyperparams):
        return hyperparams.replace(gae_lambda=0.8 - share, clip_epsilon=0.1 + share)
    return hyperparams.replace(epsilon_start=1.0 - share)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ppo", "dqn", "pqn"])
def test_every_update_uses_the_scheduled_values(name):
    make, config, hyperparams = LEARNERS[name]
    env = probes.Cycle()
    scheduled, plain = make(config, env, schedule=by_progress), make(config, env)
    update = {each: jax.jit(each.update) for each in (scheduled, plain)}
    meta_params, key = jnp.float32(0.1), jax.random.key(0)
    state = expected = jax.jit(plain.init)(key, hyperparams, None, env.default_params)
    for index in range(config.num_updates):
        context = SimpleNamespace(hyperparams=hyperparams, progress=jnp.float32(index / 4))
        settings = by_progress(meta_params, context)
        before = expected
        state, *others = update[scheduled](state, hyperparams, meta_params, env.default_params)
        expected, *same = update[plain](expected, settings, None, env.default_params)
        unscheduled, *_ = update[plain](before, hyperparams, None, env.default_params)
        for a, b in zip(jax.tree.leaves(others), jax.tree.leaves(same), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
        for a, b in zip(
            jax.tree.leaves(state.params), jax.tree.leaves(expected.params), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    moved = jax.tree.map(jnp.array_equal, expected.params, unscheduled.params)
    assert not all(jax.tree.leaves(moved))
