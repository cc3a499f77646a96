"""What the first of several processes parses, and the others get as JSON."""

import json
from pathlib import Path

import pytest

from metaevo.config import ConfigError, from_dict
from metaevo.evolution.command import _parse
from metaevo.studies.settings import experiment_class

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
