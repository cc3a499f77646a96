import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs, fast, ppo
from purerl.fast import loops
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
