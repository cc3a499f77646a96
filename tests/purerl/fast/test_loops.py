import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import envs, fast, ppo
from purerl.fast import loops
from purerl.fast.loops import SMALL, clip_by_global_norm, scan_gradient_steps
from purerl.parts import rollouts


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 3])
def test_a_scan_laid_out_for_a_gpu_has_the_same_results(gpu_layout, unroll, reverse):
    def step(carry, x):
        total = carry + x["a"].sum()
        return total, {"total": total, "large": x["a"] > 0, "rows": {"a": 2 * x["a"], "i": x["i"]}}

    xs = {"a": jnp.arange(30.0).reshape(5, 3, 2) - 12, "i": jnp.arange(5)}
    expected = jax.lax.scan(step, jnp.float32(1.0), xs, reverse=reverse)
    found = loops.scan(step, jnp.float32(1.0), xs, unroll=unroll, reverse=reverse)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_training_laid_out_for_a_gpu_learns_the_same(gpu_layout, monkeypatch):
    monkeypatch.setattr(rollouts, "UNROLL", 2)  # compiles faster
    env, env_params = envs.make("CartPole-v1")
    config = ppo.Config(
        32, num_envs=2, num_steps=8, update_epochs=1, num_minibatches=1, hidden_sizes=(4,)
    )

    def train():
        result = jax.jit(ppo.make_train(config, env))(
            jax.random.key(0), ppo.Hyperparams(), None, env_params
        )
        return result.state.params, result.episodes

    as_for_a_gpu = train()
    fast.trace_for(None)
    as_for_a_cpu = train()
    chex.assert_trees_all_close(as_for_a_gpu, as_for_a_cpu, rtol=1e-4, atol=1e-5)


PARAMS = {"a": jnp.arange(6.0).reshape(2, 3), "b": {"c": jnp.float32(2.0)}, "d": jnp.ones(0)}
INPUTS = jnp.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0], [0.1, 0.2, 0.3]])


def descend(params, opt_state, row):
    def loss(params):
        return jnp.sum(jnp.sin(params["a"] @ row)) * params["b"]["c"]

    metric, grads = jax.value_and_grad(loss)(params)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, opt_state["velocity"], grads)
    updates = jax.tree.map(lambda v: -0.1 * v, velocity)
    return updates, {"velocity": velocity, "count": opt_state["count"] + 1}, metric


def plain(step, params, opt_state, inputs):
    metrics = []
    for row in inputs:
        updates, opt_state, metric = step(params, opt_state, row)
        params = jax.tree.map(jnp.add, params, updates)
        metrics.append(metric)
    return params, opt_state, jnp.stack(metrics)


def assert_close(found, expected):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected
    )


def test_steps_match_a_plain_loop():
    opt_state = {"velocity": jax.tree.map(jnp.zeros_like, PARAMS), "count": jnp.int32(0)}
    found = jax.jit(scan_gradient_steps, static_argnums=0)(descend, PARAMS, opt_state, INPUTS)
    assert_close(found, plain(descend, PARAMS, opt_state, INPUTS))

    def of_end(scan):
        def end(params, inputs):
            params, _, metrics = scan(descend, params, opt_state, inputs)
            return jnp.sum(params["a"] ** 2) + jnp.sum(metrics)

        return jax.grad(end, (0, 1))(PARAMS, INPUTS)

    assert_close(of_end(scan_gradient_steps), of_end(plain))


@pytest.mark.parametrize("limit", [0.5, 1e6, np.inf])
def test_a_gradient_is_clipped_for_a_gpu_as_optax_does(gpu_layout, limit):
    rng = np.random.default_rng(0)
    sizes = {"large": (SMALL,), "small": (3, 5), "other": (7,)}
    updates = {name: jnp.asarray(rng.normal(size=size)) for name, size in sizes.items()}
    expected, _ = optax.clip_by_global_norm(limit).update(updates, optax.EmptyState())
    found, _ = clip_by_global_norm(limit).update(updates, optax.EmptyState())
    chex.assert_trees_all_close(found, expected, rtol=1e-6)
