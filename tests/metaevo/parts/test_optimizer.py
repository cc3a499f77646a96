import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from metaevo.parts import optimizer
from purerl import dqn, envs, ppo, pqn
from purerl.parts import optimizers
from purerl.ppo import Hyperparams
from purerl.types import Context
from tests.metaevo.parts.test_formula import PARAMS, steps
from tests.metaevo.toy import drawn

HYPERPARAMS = Hyperparams(learning_rate=0.01, final_learning_rate=0.5, max_grad_norm=0.5)


@pytest.mark.parametrize(
    ("temporal", "memory_size"), [(True, 2), pytest.param(False, 0, marks=pytest.mark.long)]
)
def test_it_starts_exactly_at_adam(temporal, memory_size):
    made = optimizer.LearnedOptimizer(temporal=temporal, memory_size=memory_size)
    found, _ = steps(made.apply, jax.jit(made.init)(jax.random.key(0)))
    np.testing.assert_allclose(found, steps(optimizers.adam, None)[0], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("scale", [1e12, 1.0, 0.0])
def test_steps_are_bounded_and_finite_for_huge_weights(scale):
    made = optimizer.LearnedOptimizer(start="random", memory_size=2)
    found, _ = steps(made.apply, jax.tree.map(lambda x: 1e12 * x, drawn(made)), scale=scale)
    assert np.isfinite(found).all()
    limit = optimizer.LARGEST_STEP * np.exp(optimizer.LARGEST_EXPONENT)
    assert np.abs(found).max() <= 0.1 * limit * 1.001


def first_step(made, params, gradients, progress=0.0, num_updates=8):
    """The first step of a constant learning rate, without clipping, of drawn weights."""
    hyperparams = HYPERPARAMS.replace(final_learning_rate=1.0, max_grad_norm=1e9)
    context = Context(hyperparams, progress, num_updates)
    update = made.apply(drawn(made), context)
    params, gradients = {"params": params}, {"params": gradients}
    found = update.update(gradients, update.init(params), params, context=context)
    return found[0]["params"]


RANDOM = optimizer.LearnedOptimizer(start="random")
KERNEL = {"kernel": jnp.ones((2, 3))}


@pytest.mark.parametrize("temporal", [True, False])
def test_only_temporal_optimizers_see_progress_and_length(temporal):
    made = optimizer.LearnedOptimizer(temporal=temporal, start="random")

    @jax.jit
    def step(*time):
        return first_step(made, KERNEL, KERNEL, *time)["kernel"]

    base = step(0.0, 8)
    assert bool((step(0.5, 8) != base).any()) == temporal
    assert bool((step(0.0, 800) != base).any()) == temporal


def test_policy_parameters_are_distinguished():
    actor, critic, log_std = (
        first_step(RANDOM, {name: KERNEL}, {name: KERNEL})[name]["kernel"]
        for name in ("actor_torso", "critic_torso", "log_std")
    )
    assert (actor != critic).all()
    np.testing.assert_array_equal(actor, log_std)


def test_the_scale_of_returns_does_not_change_how_the_policy_learns():
    @jax.jit
    def policys_step(scale):
        gradients = {"actor_torso": KERNEL, "value_head": scale * jnp.arange(1.0, 5.0)}
        return first_step(RANDOM, PARAMS["params"], gradients)["actor_torso"]["kernel"]

    np.testing.assert_array_equal(policys_step(1.0), policys_step(100.0))


@pytest.mark.parametrize(("learner", "missing"), [(ppo, set()), (dqn, {"epoch"}), (pqn, set())])
def test_learners_pass_the_context_of_a_gradient_step(learner, missing):
    seen = {}

    def make_optimizer(meta_params, made):
        def update(updates, state, params=None, *, context):
            seen.update(vars(context))
            assert context.num_epochs == made.num_epochs
            assert context.num_minibatches == made.num_minibatches
            return updates, state

        return optax.GradientTransformationExtraArgs(lambda params: (), update)

    env, env_params = envs.make("CartPole-v1")
    train = learner.make_train(learner.Config(), env, make_optimizer=make_optimizer)
    jax.eval_shape(train, jax.random.key(0), learner.Hyperparams(), None, env_params)
    assert {name for name, value in seen.items() if value is None} == missing
    assert isinstance(seen["progress"], jax.Array)  # traced, not the defaults
    assert isinstance(seen["frames"], jax.Array)
