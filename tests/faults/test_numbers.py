"""Infinite, huge and NaN rewards, fitness values and losses."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError, dump_yaml
from metaevo.evolution.evosax import ALGORITHMS, Evosax
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import with_worst_for_failed
from purerl.envs import registry
from purerl.envs.grid_world import GridWorld
from tests.faults.fuzzing import SCRIPTS
from tests.faults.works import ROOT
from tests.metaevo.toy import Point

HUGE = np.linspace(-3e38, 3e38, 16, dtype=np.float32)
FAILED = np.arange(16) % 3 == 0


@pytest.mark.parametrize("fitness", [HUGE, np.full(16, 3e38, np.float32), -np.abs(HUGE)])
def test_fitness_for_strategies_and_its_squares_are_finite(fitness):
    told = np.asarray(with_worst_for_failed(jnp.where(FAILED, jnp.nan, fitness)))
    assert np.isfinite(np.sum(np.square(np.tile(told, 1000)), dtype=np.float32))
    assert told[FAILED].max() < told[~FAILED].min()
    assert (np.diff(told[~FAILED][np.argsort(fitness[~FAILED])]) >= 0).all()


def huge(name, shaping):
    """A strategy's results after generations of huge, failed and ordinary fitness."""
    strategy = Evosax(algorithm=name, population_size=16, sigma=0.3, fitness_shaping=shaping)
    strategy = strategy.bind(Point(16))
    state = strategy.init(jax.random.key(0), lambda key: 0.1 * jax.random.normal(key, (16,)))
    generations = [HUGE, jnp.where(FAILED, jnp.nan, HUGE), HUGE * 1e-8, np.arange(16.0)]
    for index, fitness in enumerate(generations):
        key = jax.random.key(index)
        population, asked = strategy.ask(key, state)
        told = with_worst_for_failed(jnp.asarray(fitness, jnp.float32))
        state = strategy.tell(key, population, Evaluation(told, {}), asked)
        yield np.asarray(strategy.best(state))


@pytest.mark.faults
@pytest.mark.parametrize("shaping", ["auto", "standardize"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_huge_fitness_leaves_a_finite_result(name, shaping):
    if name in ("DES", "SimpleES") and shaping != "auto":
        with pytest.raises(ConfigError, match="needs weights that are not negative"):
            next(huge(name, shaping))
        return
    assert all(np.isfinite(best).all() for best in huge(name, shaping))


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("error", [KeyError, AssertionError, ZeroDivisionError, RuntimeError])
def test_an_environment_that_raises_when_it_is_traced_is_named(where, error, monkeypatch):
    def raising(*_, **__):
        raise error("no simulator")

    broken = f"Broken-{where}-{error.__name__}"  # built environments are kept by their names
    monkeypatch.setitem(registry.OWN, broken, type("Broken", (GridWorld,), {where: raising}))
    for name in ("evolve_value_loss", "train", "sweep"):
        line = ["--learner", "q_learning", "--task.env", broken]
        line += ["--space.hyperparams.gamma", "{uniform: [0, 1]}"] if name == "sweep" else []
        complaint = SCRIPTS[name].attempt(line) or ""
        assert f"{broken} cannot be reset and stepped: {error.__name__}" in complaint


# --- Whole runs ---------------------------------------------------------------------------------

GRID = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 4}},
    "train": {"total_timesteps": 200, "num_steps": 20},
}
EVOLUTION = {
    **GRID,
    "component": {"form": "additive", "hidden_sizes": [4], "start": "squared"},
    "fitness": {"mean_return": 0.0, "reward_per_step": 1.0},
    "strategy": {"population_size": 4},
    "evolution": {"generations": 3, "validation_seeds": 2},
}


def call(script, config, tmp_path, *arguments, code=0, before=()):
    """Run a script in a process; its stderr."""
    path = tmp_path / "given.yaml"
    path.write_text(dump_yaml(config), encoding="utf-8")
    command = [sys.executable, *before, f"experiments/{script}.py", "--config", str(path)]
    if "--resume" in arguments:
        command = command[:-2]
    done = subprocess.run(
        [*command, "--run-dir", str(tmp_path / "run"), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert code == 1 or "Traceback" not in done.stderr  # then JAX logs that of a callback
    return done.stderr


def records(tmp_path):
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def infinite(config):
    params = {"size": 4, "step_reward": float("inf")}
    return {**config, "task": {"env": "GridWorld", "env_params": params}}


@pytest.mark.faults
def test_an_evolution_without_a_finite_candidate_ends_after_the_first_generation(tmp_path):
    stderr = call("evolve_value_loss", infinite(EVOLUTION), tmp_path, code=2)
    assert "evolve_value_loss: all candidates of the first generation" in stderr.splitlines()[-1]
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.faults
@pytest.mark.parametrize("values", [[0.0, float("inf")], [-float("inf"), float("inf")]])
def test_a_sweep_with_trials_that_diverge(values, tmp_path):
    config = {
        **GRID,
        "space": {"hyperparams.initial_value": {"choice": values}},
        "sweep": {"sampler": "grid", "seeds": 2, "confirm_seeds": 2, "trials": 2},
    }
    none_left = values[0] != 0.0
    stderr = call("sweep", config, tmp_path, code=2 if none_left else 0)
    trials = [each for each in records(tmp_path) if each["kind"] == "trial"]
    assert sorted(each["value"] is None for each in trials) == [none_left, True]
    assert ("ended with a score" in stderr) == none_left


@pytest.mark.faults
def test_a_run_resumes_after_an_environment_raises(tmp_path):
    config = {**EVOLUTION, "evaluation": {"seeds": 0}}
    config["task"] = {"env": "Raising", "env_params": {"size": 4}}
    config["evolution"] = {"generations": 12, "validation_seeds": 0}
    raising = "tests/faults/raising.py"
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for path in (whole, broken):
        path.mkdir()
    call("evolve_value_loss", config, whole, before=(raising, "1000000000"))
    stderr = call("evolve_value_loss", config, broken, before=(raising, "4000"), code=1)
    assert "the simulator has crashed" in (broken / "run" / "error.txt").read_text()
    lines = [each for each in stderr.splitlines() if each.startswith("error: the run has failed")]
    assert len(lines) == 1
    assert "--resume --run-dir" in lines[0]
    assert len(records(broken)) < 12
    call("evolve_value_loss", config, broken, "--resume", before=(raising, "1000000000"))
    for one, other in zip(records(whole), records(broken), strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
