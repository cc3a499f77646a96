"""Schedules as formulas: what they are fitted to, and how those of hyperparameters are joined."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.commands.distill import main
from metaevo.components.discovery import load
from metaevo.discovery import factors, regression
from metaevo.discovery.factors import PROGRESS, factors_of, search
from purerl import ppo
from purerl.types import Context
from tests.metaevo.discovery.test_networks import part_of
from tests.metaevo.evolving import evolve

SETTINGS = SimpleNamespace(train=SimpleNamespace(num_updates=10), hyperparams=ppo.Hyperparams())


def test_factors_multiply_hyperparameters():
    part = part_of(
        "schedule", coefficients=2, scheduled=("learning_rate", "gae_lambda", "clip_epsilon")
    )
    meta_params = part.component.init(jax.random.key(0))
    meta_params["learning_rate"]["slope"] = jnp.float32(-1.0)
    meta_params["gae_lambda"]["level"] = jnp.float32(0.5)
    found = factors_of(part, meta_params, SETTINGS)
    assert set(found) == {"learning_rate", "gae_lambda"}
    np.testing.assert_allclose(found["learning_rate"], np.exp(1 - 2 * PROGRESS), rtol=1e-5)
    given = SETTINGS.hyperparams.gae_lambda
    odds = given / (1 - given) * np.exp(0.5)
    np.testing.assert_allclose(found["gae_lambda"], odds / (1 + odds) / given, rtol=1e-5)


def test_formulas_of_several_hyperparameters_become_one(monkeypatch):
    def sums_of(inputs, wanted, *, seed, evaluations):
        del inputs, seed
        assert evaluations == 50
        if np.ptp(wanted) > 0.5:
            yield {"": 2.0, "progress": -1.5}  # exact
            yield {"": 1.9, "progress": -1.5}
        else:
            yield {"": 1.02, "progress**2": 0.1}

    monkeypatch.setattr(regression, "sums_of", sums_of)
    wanted = {"learning_rate": 2 - 1.5 * PROGRESS, "clip_epsilon": 1 + 0.2 * PROGRESS}
    found = search(wanted, seed=0, evaluations=100)
    texts = [each.config.written(each.config.constants) for each in found]
    assert texts[0] == "learning_rate: 1.25; clip_epsilon: 1.1"
    assert (
        texts[-1] == "learning_rate: 2.0 - 1.5 * progress; clip_epsilon: 1.02 + 0.1 * progress ** 2"
    )
    errors = [each.error for each in found]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(1.0)
    left = 1 + 0.2 * PROGRESS - (1.02 + 0.1 * PROGRESS**2)
    assert errors[-1] == pytest.approx(np.mean(left**2) / np.var(0.2 * PROGRESS) / 2, rel=1e-3)


def test_a_constant_factor_needs_no_search(monkeypatch):
    monkeypatch.setattr(regression, "sums_of", None)
    (found,) = search({"learning_rate": np.full(factors.POINTS, 0.5)}, seed=0, evaluations=10)
    assert found.config.written(found.config.constants) == "0.5"
    assert (found.length, found.error) == (1, 0.0)


TINY = """
learner: ppo
evolve: schedule
train: {total_timesteps: 512, num_envs: 2, num_steps: 32, num_minibatches: 1, hidden_sizes: [4]}
hyperparams: {learning_rate: 0.1}
component: {scheduled: [learning_rate, clip_epsilon], coefficients: 2}
strategy: {population_size: 4, sigma: 0.5}
evolution: {generations: 1, validation_seeds: 0, num_devices: 1}
evaluation: {seeds: 0, space: {}}
"""


@pytest.mark.long
def test_a_schedule_becomes_formulas(tmp_path, refused):
    pytest.importorskip("pyoperon")
    run = evolve(tmp_path, TINY)
    line = refused(main, [str(run), "--into", "network"], description="")
    assert "--into network: a schedule has no network" in line
    argv = [str(run), "--evaluations", "2000", "--formulas", "2", "--evaluation.seeds", "4"]
    assert main(argv, description="") == 0
    found = json.loads((run / "distill/schedule/distilled.json").read_text())
    assert found["hyperparams"] == ["learning_rate", "clip_epsilon"]
    assert {each["name"] for each in found["hand_written"]} == {"constant", "linear", "cosine"}
    best = found["formulas"][-1]
    assert best["error"] < 0.05
    schedule, meta_params = load(run / "distill/schedule" / best["name"].replace(" ", "_"))
    learned, own = load(run)
    context = Context(ppo.Hyperparams(learning_rate=0.1), jnp.float32(0.3), 8)
    near = schedule(meta_params, context).learning_rate / learned(own, context).learning_rate
    assert near == pytest.approx(1.0, abs=0.2)
