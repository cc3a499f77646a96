import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.discovery import observe
from purerl.types import Context
from tests.metaevo.evolving import settings_of

PPO = {
    "evolve": "formula",
    "learner": "ppo",
    "train": {
        "total_timesteps": 64, "num_envs": 2, "num_steps": 8, "update_epochs": 2,
        "num_minibatches": 2, "hidden_sizes": [4],
    },
    "component": {
        "slot": "policy_loss",
        "expression": "c * log_ratio**2 - ratio * advantage",
        "constants": {"c": 0.5},
    },
}  # fmt: skip


def observed(monkeypatch, raw, change=lambda meta_params: meta_params):
    """2 agents of a problem, recorded twice."""
    monkeypatch.setattr(observe, "AGENTS", 2)
    monkeypatch.setattr(observe, "TIMES", 2)
    problem = settings_of(raw).build()
    (part,) = problem.parts.by_slot.values()
    meta_params = change(part.init(jax.random.key(0)))
    return observe.observe(problem, meta_params, part, seed=0, check_stop=lambda: None)


@pytest.mark.long
def test_all_inputs_of_a_loss_are_recorded(monkeypatch):
    found = observed(monkeypatch, PPO)
    log_ratio, advantage = found.inputs["log_ratio"], found.inputs["advantage"]
    # 2 times, 2 agents, 2 epochs of 16 samples
    assert len(log_ratio) == 2 * 2 * 2 * 16
    assert set(found.inputs["progress"]) == {0.0, 0.5}
    # the policy has not moved before the first of 4 gradient steps of an update, and then it has
    assert np.sum(np.abs(log_ratio) < 1e-6) >= 2 * 2 * 8
    assert np.mean(np.abs(log_ratio) > 1e-6) > 0.5
    expected = log_ratio - np.exp(log_ratio) * advantage
    np.testing.assert_allclose(found.wanted, expected, rtol=1e-3, atol=1e-4)


def test_recording_does_not_change_the_loss():
    (part,) = settings_of(PPO).build().parts.by_slot.values()
    meta_params = part.init(jax.random.key(0))
    seen = []
    listened = observe.recorded_loss(part, seen).apply
    scalars = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)

    def slope(function):
        def at(scalars):
            return jax.grad(function, argnums=2)(meta_params, Context(None), *scalars)

        return jax.jit(jax.vmap(jax.vmap(at)))(scalars)

    np.testing.assert_allclose(slope(listened), slope(part.apply), rtol=1e-5)
    np.testing.assert_array_equal(np.concatenate(seen).reshape(scalars.shape), scalars)


@pytest.mark.long
def test_optimizer_inputs_are_recorded_for_every_array(monkeypatch):
    def larger(meta_params):
        bias = meta_params["output_bias"] + jnp.array([0.5, 0.3])
        return meta_params | {"mix": 2 * meta_params["mix"], "output_bias": bias}

    monkeypatch.setattr(observe, "OF_ARRAY", 3)
    found = observed(monkeypatch, PPO | {"evolve": "optimizer", "component": {}}, larger)
    # 2 times, 2 agents, 4 gradient steps; 6 arrays of 3, the biases of the heads have 2 and 1
    inputs = found.inputs
    assert len(found.wanted) == 2 * 2 * 4 * 21
    assert np.mean(inputs["policy"]) == pytest.approx(11 / 21)
    first = inputs["progress"] == 0
    # of the first update's first gradient step: 2 agents
    alike = np.isclose(inputs["gradient"], inputs["mean_999"], rtol=1e-5)
    assert np.sum(alike[first]) == 2 * 21
    expected = (2 * inputs["mean_9"] + 0.5) * np.exp(3 * np.tanh(0.1))
    np.testing.assert_allclose(found.wanted, expected, rtol=1e-4, atol=1e-5)
