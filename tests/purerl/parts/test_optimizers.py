from types import SimpleNamespace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax import contrib

from purerl import ppo
from purerl.parts import optimizers
from purerl.ppo import Hyperparams
from purerl.types import Context
from tests.purerl import probes
from tests.purerl.test_learners import LEARNERS

RULES = {
    "adam": optax.adam(1.0, eps=1e-3),
    "momentum": optax.sgd(1.0, momentum=0.8),
    "rmsprop": optax.rmsprop(1.0, decay=0.7, eps=1e-3),
    "sgd": optax.sgd(1.0),
    "adamw": optax.adamw(1.0, eps=1e-3, weight_decay=0.3),
    "nadam": optax.nadam(1.0, eps=1e-3),
    "amsgrad": optax.amsgrad(1.0, eps=1e-3),
    "radam": optax.radam(1.0, eps=1e-3),
    "lion": optax.lion(1.0, b1=0.9, b2=0.99, weight_decay=0.3),
}
"""Rules for a learning rate of 1."""
HYPERPARAMS = Hyperparams(
    learning_rate=0.1, final_learning_rate=0.2, max_grad_norm=0.5, adam_epsilon=1e-3,
    momentum=0.8, rmsprop_decay=0.7, rmsprop_epsilon=1e-3, weight_decay=0.3,
)  # fmt: skip


def at(progress, frames=0.0):
    return Context(HYPERPARAMS, jnp.float32(progress), frames=jnp.float32(frames))


def assert_steps(optimizer, expected):
    """Compare steps [5] on random gradients, one after another; `expected` is the same function."""
    params = {"a": jnp.zeros(3), "b": jnp.zeros(2)}  # clipped by their common norm
    state = optimizer.init(params)
    rng = np.random.default_rng(0)
    for step in range(8):
        gradient = (rng.normal(size=5) * 10.0 ** -(step % 3)).astype(np.float32)
        tree = {"a": gradient[:3], "b": gradient[3:]}
        before = np.concatenate([params["a"], params["b"]])
        updates, state = optimizer.update(tree, state, params, context=at(step / 7))
        found = np.concatenate([updates["a"], updates["b"]])
        wanted = expected(gradient, before, 1 - 0.8 * step / 7)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-6)
        params = {name: params[name] + updates[name] for name in params}


def as_steps(optimizer):
    """Return steps of an optimizer of optax on the clipped gradient, as a function with a state."""
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optimizer)
    state = optimizer.init(jnp.zeros(5))

    def steps(gradient, params):
        nonlocal state
        updates, state = optimizer.update(jnp.asarray(gradient), state, jnp.asarray(params))
        return updates

    return steps


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    steps = as_steps(RULES[name])
    assert_steps(
        optimizers.MAKE_OPTIMIZER.functions[name](None, Context(HYPERPARAMS)),
        lambda gradient, params, fraction: 0.1 * fraction * steps(gradient, params),
    )


def test_schedule_free_anneals_from_update_to_update():
    """Its learning rate is that of the context with which it was made."""
    steps = as_steps(contrib.schedule_free_adamw(0.1 * 0.6, eps=1e-3))
    assert_steps(
        optimizers.schedule_free_adam(None, Context(HYPERPARAMS, jnp.float32(0.5))),
        lambda gradient, params, _: steps(gradient, params),
    )


def test_muon():
    """A kernel of 2 x 2 filters is a matrix of 4 inputs; biases and heads take NAdam's steps."""
    torso = {"Conv_0": {"kernel": (2, 2, 1, 3), "bias": (3,)}, "Dense_1": {"kernel": (5, 3)}}
    shapes = {"actor_torso": torso, "policy_head": {"kernel": (3, 2)}}
    is_shape = {"is_leaf": lambda x: isinstance(x, tuple)}
    params = {"params": jax.tree.map(jnp.zeros, shapes, **is_shape)}
    context = Context(HYPERPARAMS.replace(max_grad_norm=jnp.inf))
    rng = np.random.default_rng(0)
    gradient = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), params)

    def step(optimizer, gradient):
        return optimizer.update(gradient, optimizer.init(gradient), gradient, context=at(0.0))[0]

    found = step(optimizers.muon(None, context), gradient)["params"]
    nadam = step(optimizers.nadam(None, context), gradient)["params"]
    kernels = gradient["params"]["actor_torso"]
    matrix = contrib.muon(0.1, eps=1e-3, consistent_rms=0.2)
    filters = step(matrix, jnp.asarray(kernels["Conv_0"]["kernel"].reshape(4, 3)))
    found_filters = found["actor_torso"]["Conv_0"].pop("kernel").reshape(4, 3)
    np.testing.assert_allclose(found_filters, filters, rtol=1e-3)
    dense = step(matrix, jnp.asarray(kernels["Dense_1"]["kernel"]))
    np.testing.assert_allclose(found["actor_torso"].pop("Dense_1")["kernel"], dense, rtol=1e-3)
    del nadam["actor_torso"]["Dense_1"], nadam["actor_torso"]["Conv_0"]["kernel"]
    chex.assert_trees_all_close(found, nadam, rtol=1e-5)


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
    hyperparams = Hyperparams(
        learning_rate=3.0, final_learning_rate=final_fraction, annealing_steps=annealing_steps
    )
    optimizer = optimizers.scale_by_annealed_learning_rate(Context(hyperparams))
    here = at(progress, 100 * progress)
    updates, _ = optimizer.update(jnp.ones(()), optimizer.init(None), context=here)
    assert -updates == pytest.approx(expected)


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
