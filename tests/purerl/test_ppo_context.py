import jax
import jax.numpy as jnp
import numpy as np
import optax

from purerl import ppo
from purerl.parts import losses
from tests.purerl.test_ppo import CONFIG, ENV, HYPERPARAMS, init, problem, replace


def start():
    learner, params, batch = problem(ENV, np.random.default_rng(0))
    return init(learner).replace(params=params), batch


TOLD = "progress", "frames", "epoch"


def add_told(meta_params, context):
    """An optimizer that adds what its context has to parameters, one number to one tensor each."""

    def update(updates, state, params=None, *, context):
        leaves, structure = jax.tree.flatten(updates)
        numbers = [getattr(context, name) for name in TOLD] + [0.0] * (len(leaves) - len(TOLD))
        moves = [jnp.full_like(x, number) for x, number in zip(leaves, numbers, strict=True)]
        return jax.tree.unflatten(structure, moves), state

    return optax.GradientTransformationExtraArgs(lambda params: (), update)


def moves(after, before):
    """The change of the first number of each tensor that `add_told` changes."""
    leaves = zip(jax.tree.leaves(after.params), jax.tree.leaves(before.params), strict=True)
    return [float(np.ravel(a - b)[0]) for a, b in leaves][: len(TOLD)]


def test_the_optimizer_is_passed_the_progress():
    learner = ppo.PPO(replace(CONFIG, total_timesteps=4 * 24 + 5), ENV, make_optimizer=add_told)
    state, batch = start()
    learn = jax.jit(learner.learn)
    for update in range(4):
        after, _ = learn(state, batch, HYPERPARAMS, None)
        expected = [3 * update / 4, 3 * 24 * update, (0 + 1 + 2) / 3]  # over three gradient steps
        np.testing.assert_allclose(moves(after, state), expected, atol=1e-4)
        state = after


CONTEXTS: list[tuple[float, ...]] = []


def test_every_slot_sees_the_context_of_its_gradient_step():
    state, batch = start()

    def value_loss(meta, context, prediction, target, old_prediction):
        number = jax.random.uniform(context.key)  # the same one for all samples
        where = context.progress, context.epoch, context.minibatch, context.num_updates, number
        where = *where, context.num_minibatches
        jax.debug.callback(lambda *where: CONTEXTS.append(where), *where, ordered=True)
        return losses.squared(None, context, prediction, target, old_prediction)

    config = replace(CONFIG, num_minibatches=2, update_epochs=3, total_timesteps=4 * 24)
    learner = ppo.PPO(config, ENV, value_loss)
    state = state.replace(update=jnp.int32(1))
    CONTEXTS.clear()
    jax.jit(learner.learn)(state, batch, HYPERPARAMS, None)
    jax.effects_barrier()
    found = np.asarray(CONTEXTS, np.float64)
    expected = [(0.25, epoch / 3, half / 2, 4) for epoch in range(3) for half in range(2)]
    np.testing.assert_allclose(found[:, :4], expected, rtol=1e-6)
    assert len(set(found[:, 4])) == 6  # a key for every gradient step
    assert (found[:, 5] == 2).all()
