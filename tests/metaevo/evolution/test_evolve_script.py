"""What the first of several processes parses, and the others get as JSON."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import optax
import pytest

from metaevo.components import COMPONENTS, Component
from metaevo.config import ConfigError, from_dict
from metaevo.evolution.command import _parse
from metaevo.evolution.run import run_study
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import experiment_class
from purerl.learners import LEARNERS

CONFIGS = sorted((Path(__file__).parents[3] / "configs").glob("evolve_*/*.yaml"))


def settings_of(data):
    return from_dict(experiment_class(data, None), data)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_settings_survive_the_way_to_other_processes(path):
    component = path.parent.name.removeprefix("evolve_")
    given = _parse(["--config", str(path), "--run-dir", "runs/a"], component, None)
    received = json.loads(json.dumps(given))
    assert received["run_dir"] == "runs/a"
    assert received["resume"] is False
    # Classes are made anew for every run: what they hold is compared.
    assert repr(settings_of(received["settings"])) == repr(settings_of(given["settings"]))


def test_short_flags_are_settings():
    argv = ["--devices", "2", "--generations", "7", "--wandb", "offline", "--coordinator", "a:1"]
    settings = settings_of(_parse(argv, "value_loss", None)["settings"])
    assert settings.evolution.num_devices == 2
    assert settings.evolution.generations == 7
    assert settings.run.wandb == "offline"


@pytest.mark.parametrize("value", ["0", "-1"])
def test_impossible_numbers_of_devices_are_refused(value):
    with pytest.raises(ConfigError, match=r"evolution\.num_devices"):
        _parse(["--devices", value], "value_loss", None)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, r"evaluation\.seeds = 128: ppo has no hand-written make_optimizer .* allowed: 0"),
        (
            {"evaluation": {"seeds": 0}, "task": {"env": ["CartPole-v1", "Acrobot-v1"]}},
            r"task\.env = .* allowed: a single one",
        ),
    ],
)
def test_what_has_no_baselines_is_refused_before_it_evolves(changes, text, tmp_path, monkeypatch):
    step = SimpleNamespace(
        SLOT="make_optimizer",
        Config=dataclasses.make_dataclass("Config", [], frozen=True),
        make=lambda config: Component(
            lambda key: jnp.zeros(1), lambda meta_params, context: optax.sgd(0.1)
        ),
    )
    monkeypatch.setitem(COMPONENTS, "step", step)
    monkeypatch.setitem(LEARNERS["ppo"].slots, "make_optimizer", ())
    settings = settings_of({"evolve": "step", **changes})
    with pytest.raises(ConfigError, match=text):
        run_study(LearnerStudy(settings), settings, run_dir=tmp_path / "run", resume=False)
    assert not (tmp_path / "run").exists()
