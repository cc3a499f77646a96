"""Schedule-free Adam with evolved numbers: its ends are optax's optimizers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from metaevo.components import averaging
from purerl import ppo
from purerl.parts import optimizers
from purerl.types import Context

PARAMS = {"policy_head": jnp.asarray([0.5, -1.0]), "value_head": jnp.asarray([[2.0], [0.1]])}
STEPS = 12


def path(make_optimizer, meta_params):
    """Return the parameters after every step on changing gradients."""
    context = Context(ppo.Hyperparams(learning_rate=0.1, max_grad_norm=1e9), num_updates=STEPS)
    params, state, found = PARAMS, make_optimizer(meta_params, context).init(PARAMS), []
    for step in range(STEPS):
        noise = jax.random.normal(jax.random.key(step), (2,))
        policy, value = params["policy_head"], params["value_head"]
        grads = {"policy_head": policy + noise, "value_head": value * noise[:, None]}
        told = {"progress": step / STEPS, "frames": 0.0}
        optimizer = make_optimizer(meta_params, context.replace(**told))
        updates, state = optimizer.update(grads, state, params, **told)
        params = optax.apply_updates(params, updates)
        found.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)]))
    return np.array(found)


LEARNED = averaging.make(averaging.Config()).apply
START = averaging.init(jax.random.key(0))


def test_it_begins_as_schedule_free_adam():
    np.testing.assert_allclose(
        path(LEARNED, START), path(optimizers.schedule_free_adam, None), rtol=1e-4, atol=1e-5
    )


def test_without_averages_it_is_adam():
    numbers = {"momentum": 1.0, "share": -30.0}
    meta_params = START | {name: jnp.full(2, value) for name, value in numbers.items()}
    np.testing.assert_allclose(
        path(LEARNED, meta_params), path(optimizers.adam, None), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("recency", [1.0, 3.0])
def test_the_average_weighs_steps_by_their_number(recency):
    """With a share of 1 the parameters are the average of z, whose weights are known."""
    numbers = {"recency": np.log(recency), "share": 30.0}
    meta_params = START | {name: jnp.full(2, value) for name, value in numbers.items()}
    grads = jnp.ones(1)
    hyperparams = ppo.Hyperparams(learning_rate=1.0, final_learning_rate=1.0)
    optimizer = LEARNED(meta_params, Context(hyperparams))
    params, state = jnp.zeros(1), optimizer.init(jnp.zeros(1))
    for _ in range(STEPS):
        updates, state = optimizer.update(grads, state, params, progress=0.0, frames=0.0)
        params = optax.apply_updates(params, updates)
    z = -np.arange(1.0, STEPS + 1)  # each step is one learning rate
    weights = {1.0: np.ones(STEPS), 3.0: np.cumsum(np.arange(1.0, STEPS + 1))}[recency]
    assert float(params[0]) == pytest.approx(np.average(z, weights=weights), rel=1e-4)


def test_each_network_has_its_numbers():
    changed = START | {
        "momentum": jnp.asarray([1.0, 0.0]),
        "share": jnp.asarray([-30.0, 2.1972246]),
    }
    found = path(LEARNED, changed)
    np.testing.assert_allclose(found[:, :2], path(LEARNED, START)[:, :2], rtol=1e-4, atol=1e-5)
    adam = path(optimizers.adam, None)
    np.testing.assert_allclose(found[:, 2:], adam[:, 2:], rtol=1e-4, atol=1e-5)
