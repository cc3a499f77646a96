"""A component's own hyperparameters are tuned and traced like a learner's."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import metaevo
from metaevo.comparison.evaluation import train_variants
from metaevo.components import registry
from metaevo.config import ConfigError, to_dict
from metaevo.studies.settings import make_experiment
from metaevo.training.fitness import FitnessConfig
from metaevo.training.population import Population
from metaevo.tuning.space import make_space
from purerl.types import Context
from tests.metaevo import evolving

PENALTY = """
from dataclasses import dataclass

import jax.numpy as jnp
from flax import struct

from metaevo import Component

SLOT = "value_loss"


@dataclass(frozen=True)
class Config:
    pass


class Hyperparams(struct.PyTreeNode):
    weight: float = 1.0
    power: float = 2.0


def make(config):
    def value_loss(meta_params, context, prediction, target, old_prediction):
        own = context.component
        error = jnp.abs(prediction - target) + 1e-6
        return own.weight * jnp.exp(meta_params["scale"]) * error**own.power

    return Component(lambda key: {"scale": jnp.zeros(())}, value_loss)
"""
SETTINGS = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 4}},
    "train": {"total_timesteps": 200, "num_steps": 100},
    "strategy": {"population_size": 4, "sigma": 0.5},
    "evolution": {"generations": 1, "validation_seeds": 2, "chunk_size": 2, "num_devices": 1},
    "evaluation": {"seeds": 2},
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "penalty.py").write_text(PENALTY)
    shutil.copy(Path(__file__).parents[3] / "examples/scheduled_adam.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "IMPORTED", {})
    return tmp_path


def settings_of(**changes):
    return evolving.settings_of({**SETTINGS, "evolve": "penalty.py", **changes})


def test_the_context_has_the_components_hyperparams(place):
    changes = {"hyperparams": {"component": {"weight": 3.0}}}
    settings = settings_of(**changes)
    assert to_dict(settings.hyperparams)["component"] == {"weight": 3.0, "power": 2.0}
    assert type(settings.hyperparams) is type(settings_of().hyperparams)
    function = make_experiment(settings).evolved.functions()["value_loss"]
    arguments = {"scale": 0.0}, Context(settings.hyperparams), 3.0, 1.0, 0.0
    np.testing.assert_allclose(function(*arguments), 3.0 * 2.0**2, rtol=1e-5)


def test_unknown_or_invalid_hyperparams_are_refused(place):
    with pytest.raises(ConfigError, match=r"hyperparams\.component\.wait.*weight"):
        settings_of(hyperparams={"component": {"wait": 1.0}})
    (place / "penalty.py").write_text(PENALTY.replace("float = 2.0", "str = 'two'"))
    registry.IMPORTED.clear()
    with pytest.raises(ConfigError, match="Hyperparams: must be a flax"):
        settings_of()


@pytest.mark.long
def test_changed_values_do_not_recompile(place):
    settings = settings_of()
    experiment = make_experiment(settings)
    traces = []
    functions = experiment.evolved.functions()

    def counted(*arguments):
        traces.append(1)
        return functions["value_loss"](*arguments)

    meta_params = jax.device_get(experiment.evolved.init(jax.random.key(0)))
    population = Population(
        experiment.task({"value_loss": counted}, meta_params),
        settings.hyperparams,
        meta_params,
        FitnessConfig(mean_return=0.0, reward_per_step=1.0),
    )
    keys = jax.random.split(jax.random.key(0), 4)
    rows = [{}, {"component.weight": 0.0}], [{"component.weight": 2.0}, {"component.power": 1.0}]
    one, still = train_variants(population, keys, rows[0], [meta_params] * 2)
    before = len(traces)
    train_variants(population, keys, rows[1], [meta_params] * 2)
    assert len(traces) == before
    # Without a loss, nothing is learned.
    assert not np.array_equal(one.scores, still.scores)


@pytest.mark.long
def test_they_are_tuned_with_the_learner_and_saved(place):
    space = {"learning_rate": {"choice": [0.1, 0.5]}, "component.weight": {"choice": [0.25, 4.0]}}
    seeds = {"tuning_seeds": 1, "final_seeds": 2}
    evaluation = {"space": space, "trials": 4, "sampler": "random", **seeds}
    raw = {**SETTINGS, "evaluation": {**SETTINGS["evaluation"], **evaluation}}
    argv = ["--evolve", "penalty.py", "--hyperparams.component.power", "1"]
    evolving.evolve(place, json.dumps(raw), *argv)
    result = json.loads((place / "run" / "evaluation.json").read_text())
    tuned = [row for row in result["variants"] if row["tuning_frames"]]
    assert {row["function"] for row in tuned} == {"learned", "squared", "huber", "sloped_squared"}
    assert all(row["settings"]["component.weight"] in (0.25, 1.0, 4.0) for row in tuned)
    # What a learner without them is given has those of the run.
    function, _ = metaevo.load("run", code="penalty.py")
    found = function({"scale": 0.0}, Context(None), 3.0, 1.0, 0.0)
    np.testing.assert_allclose(found, 2.0, rtol=1e-5)


def test_a_sweep_names_them_by_their_settings(place):
    settings = settings_of()
    space = {"hyperparams.component.weight": {"log_uniform": [0.1, 10.0]}}
    assert make_space(space, type(settings), to_dict(settings)).static == ()
    with pytest.raises(ConfigError, match=r"component\.wight.*component\.weight"):
        make_space({"hyperparams.component.wight": {}}, type(settings), to_dict(settings))
