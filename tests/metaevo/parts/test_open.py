"""OPEN's step where it differs from the authors' code, which test_published.py compares it with."""

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.parts import open as open_part
from purerl.ppo import Hyperparams
from purerl.types import Context

MADE = open_part.Open()
SHAPES = {
    "actor_torso": {"Dense_0": {"bias": (3,), "kernel": (2, 3)}},
    "policy_head": {"bias": (1,)},
    "value_head": {"kernel": (3, 1)},
}


def tree(seed, size=1.0):
    rng = np.random.default_rng(seed)
    values = jax.tree.map(
        lambda shape: jnp.asarray(size * rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda x: isinstance(x, tuple),
    )
    return {"params": values}


def weights():
    """None of them zero."""
    shapes, rng = jax.eval_shape(MADE.init, jax.random.key(0)), np.random.default_rng(1)
    return jax.tree.map(lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), jnp.float32), shapes)


def test_it_has_1211_numbers():
    """Of which the GRU 680 and the network 531."""
    meta_params = jax.eval_shape(MADE.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(meta_params)) == 1211
    assert sum(leaf.size for leaf in jax.tree.leaves(meta_params["gru"])) == 680


def test_only_published_weights_are_told_of_dormant_heads():
    """At the start, without clipping and with active heads, there is no other difference."""

    def updates(heads, published):
        context = Context(Hyperparams(max_grad_norm=1e9), num_updates=3, num_epochs=4)
        optimizer = open_part.Open(published=published).apply(weights(), context)
        dormancy = tree(2)
        for head in ("policy_head", "value_head"):
            dormancy["params"][head] = jax.tree.map(
                lambda leaf: jnp.full_like(leaf, heads), dormancy["params"][head]
            )
        told = {"progress": 0.0, "epoch": 0.0, "key": jax.random.key(0), "dormancy": dormancy}
        found, _ = jax.jit(optimizer.update)(tree(1), optimizer.init(tree(0)), tree(0), **told)
        return jax.flatten_util.ravel_pytree(found)[0]

    own = updates(1.0, published=False)
    np.testing.assert_allclose(own, updates(1.0, published=True), rtol=1e-4, atol=1e-8)
    np.testing.assert_array_equal(own, updates(0.5, published=False))
    assert not np.allclose(own, updates(0.5, published=True), rtol=1e-3, atol=0)


def test_steps_are_finite_for_huge_weights():
    huge = jax.tree.map(lambda x: 1e12 * x, weights())
    optimizer = MADE.apply(huge, Context(Hyperparams()))
    params, state, update = tree(0), optimizer.init(tree(0)), jax.jit(optimizer.update)
    told = {"progress": 0.5, "epoch": 0.5, "key": jax.random.key(0), "dormancy": tree(2)}
    for size in (1e6, 0.0):
        updates, state = update(tree(1, size), state, params, **told)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(updates))
