"""The training progress that PPO passes to its slots."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import ppo
from purerl.parts import losses
from tests.purerl import probes
from tests.purerl.test_ppo import CONFIG, HYPERPARAMS, problem, replace


def value_bias(state):
    return state.params["params"]["value_head"]["bias"]


def add(name):
    """An optimizer that adds what it was told by this name to every parameter, which shows it."""

    def make_optimizer(meta_params, context):
        def update(updates, state, params=None, **told):
            return jax.tree.map(lambda x: jnp.full_like(x, told[name]), updates), state

        return optax.GradientTransformationExtraArgs(lambda params: (), update)

    return make_optimizer


@pytest.mark.parametrize(
    ("name", "expected"),
    [("progress", [0, 1 / 4, 2 / 4, 3 / 4]), ("frames", [0, 24, 48, 72]), ("epoch", [1 / 3] * 4)],
)
def test_the_optimizer_is_told_where_training_is(name, expected):
    env = probes.Cycle()
    learner = ppo.PPO(replace(CONFIG, total_timesteps=4 * 24 + 5), env, make_optimizer=add(name))
    _, state, batch = problem(env, np.random.default_rng(0))
    learn = jax.jit(learner.learn)
    for each in expected:
        after, _ = learn(state, batch, HYPERPARAMS, None)
        move = value_bias(after) - value_bias(state)
        np.testing.assert_allclose(move, 3 * each, atol=1e-4)  # three gradient steps
        state = after


def test_progress_of_a_very_long_run():
    env = probes.Cycle()
    config = replace(CONFIG, total_timesteps=4_800_000_000)
    learner = ppo.PPO(config, env, make_optimizer=add("progress"))
    _, state, batch = problem(env, np.random.default_rng(0))
    state = state.replace(update=jnp.int32(150_000_000))  # 3.6e9 steps do not fit an int32
    after, _ = jax.jit(learner.learn)(state, batch, HYPERPARAMS, None)
    move = value_bias(after) - value_bias(state)
    np.testing.assert_allclose(move, 3 * 0.75, rtol=1e-4)


CONTEXTS: list[tuple[float, ...]] = []


def test_every_slot_sees_the_context_of_its_gradient_step():
    env = probes.Cycle()
    _, state, batch = problem(env, np.random.default_rng(0))

    def value_loss(meta, context, prediction, target, old_prediction):
        number = jax.random.uniform(context.key)  # the same one for all samples
        where = context.progress, context.epoch, context.minibatch, context.num_updates, number
        jax.debug.callback(lambda *where: CONTEXTS.append(where), *where, ordered=True)
        return losses.squared(None, context, prediction, target, old_prediction)

    config = replace(CONFIG, num_minibatches=2, update_epochs=3, total_timesteps=4 * 24)
    learner = ppo.PPO(config, env, value_loss)
    state = state.replace(update=jnp.int32(1))
    CONTEXTS.clear()
    jax.jit(learner.learn)(state, batch, HYPERPARAMS, None)
    jax.effects_barrier()
    found = np.asarray(CONTEXTS, np.float64)
    expected = [(0.25, epoch / 3, half / 2, 4) for epoch in range(3) for half in range(2)]
    np.testing.assert_allclose(found[:, :4], expected, rtol=1e-6)
    assert len(set(found[:, 4])) == 6  # a key for every gradient step
