import jax
import numpy as np
import optax

from purerl import ppo
from purerl.parts import losses
from tests.purerl.test_ppo import CONFIG, ENV, HYPERPARAMS, init, problem, replace

NAMES = "progress", "frames", "num_updates", "epoch", "minibatch", "num_minibatches"
SEEN: dict[str, list[tuple[float, ...]]] = {"value_loss": [], "make_optimizer": []}


def record(slot, context):
    numbers = [getattr(context, name) for name in NAMES]
    numbers.append(jax.random.uniform(context.key))  # the same one for all samples
    jax.debug.callback(lambda *row: SEEN[slot].append(row), *numbers, ordered=True)


def value_loss(meta_params, context, *scalars):
    record("value_loss", context)
    return losses.squared(None, context, *scalars)


def make_optimizer(meta_params, context):
    def update(updates, state, params=None, *, context):
        record("make_optimizer", context)
        return updates, state

    return optax.GradientTransformationExtraArgs(lambda params: (), update)


def test_every_slot_sees_the_context_of_its_gradient_step():
    """Four updates of three epochs of two minibatches."""
    config = replace(CONFIG, num_minibatches=2, total_timesteps=4 * 24 + 5)
    learner = ppo.PPO(config, ENV, value_loss, make_optimizer=make_optimizer)
    other, params, batch = problem(ENV, np.random.default_rng(0))
    state, learn = init(other).replace(params=params, opt_state=()), jax.jit(learner.learn)
    for _ in range(4):
        state, _ = learn(state, batch, HYPERPARAMS, None)
    jax.effects_barrier()
    updates, epochs, halves = (each.ravel() for each in np.indices((4, 3, 2)))
    expected = [updates / 4, 24 * updates, 0 * updates + 4, epochs / 3, halves / 2, 0 * updates + 2]
    for rows in SEEN.values():
        np.testing.assert_allclose(np.array(rows)[:, :-1].T, expected, rtol=1e-6)
        assert len({row[-1].item() for row in rows}) == 24  # a key for every gradient step
