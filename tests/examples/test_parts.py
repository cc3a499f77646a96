from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from examples import scheduled_adam
from purerl import ppo
from purerl.types import Context


def test_the_optimizer_begins_as_adam():
    made = scheduled_adam.ScheduledAdam()
    assert made.slot == "make_optimizer"
    hyperparams = ppo.Hyperparams(learning_rate=0.01, max_grad_norm=0.5, adam_epsilon=1e-5)
    params = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
    gradient = jax.tree.map(lambda leaf: leaf + 0.5, params)

    def step(meta_params: Any, progress: float) -> Any:
        optimizer = made.apply(meta_params, Context(hyperparams))
        context = Context(hyperparams, progress=progress)
        return optimizer.update(gradient, optimizer.init(params), params, context=context)[0]

    adam = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.01, eps=1e-5))
    expected, _ = adam.update(gradient, adam.init(params), params)
    start = made.init(jax.random.key(0))
    jax.tree.map(np.testing.assert_allclose, step(start, 0.3), expected)
    tripled = jax.tree.map(lambda leaf: 3.0 * leaf, expected)
    faster = step({**start, "end": jnp.log(3.0)}, 1.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), faster, tripled)
