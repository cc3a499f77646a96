"""What the first of several processes parses, and the others get as JSON."""

import json

import pytest

from metaevo.commands.evolve import _parse
from metaevo.config import ConfigError, load_yaml
from tests.metaevo.evolving import settings_of
from tests.processes import ROOT


def test_settings_are_passed_to_other_processes():
    path = ROOT / "configs" / "evolve_lpg" / "lpg.yaml"
    given = _parse(["--config", str(path), "--run-dir", "runs/a"], "lpg")
    received = json.loads(json.dumps(given))
    assert received["run_dir"] == "runs/a"
    assert received["resume"] is False
    # Classes are made anew for every run: what they hold is compared.
    assert repr(settings_of(received["settings"])) == repr(settings_of(given["settings"]))


def test_short_flags_are_settings():
    argv = ["--devices", "2", "--generations", "7", "--wandb", "offline", "--coordinator", "a:1"]
    settings = settings_of(_parse(argv, "value_loss")["settings"])
    assert settings.evolution.num_devices == 2
    assert settings.evolution.generations == 7
    assert settings.run.wandb == "offline"


@pytest.mark.parametrize(
    ("argv", "component", "preset"),
    [
        ("", None, "evolve_value_loss/q_learning"),
        ("--evolve optimizer", None, "evolve_optimizer/ppo"),
        ("--learner ppo", None, "evolve_optimizer/ppo"),
        ("--learner ppo", "value_loss", "evolve_value_loss/ppo"),
        ("--learner dqn", None, "evolve_value_loss/dqn"),
        ("", "drift", "evolve_drift/ppo"),
    ],
)
def test_a_run_without_settings_uses_a_preset(argv, component, preset):
    given = _parse(argv.split(), component)["settings"]
    shipped = settings_of(load_yaml(ROOT / "configs" / f"{preset}.yaml"))
    assert repr(settings_of(given)) == repr(shipped)


def test_a_custom_component_uses_the_preset_of_its_slot():
    tilted = str(ROOT / "examples" / "tilted.py")
    given = _parse(["--evolve", tilted], None)["settings"]
    shipped = load_yaml(ROOT / "configs/evolve_value_loss/q_learning.yaml")
    assert given["evolve"] == tilted
    assert given["learner"] == "q_learning"
    assert given["strategy"]["population_size"] == shipped["strategy"]["population_size"]
    assert given["component"].keys() == {"slope_scale"}  # its own settings, not another's


def test_a_config_names_the_component(tmp_path):
    (tmp_path / "a.yaml").write_text("evolve: drift")
    argv = ["--config", str(tmp_path / "a.yaml")]
    assert _parse(argv, None)["settings"]["evolve"] == "drift"
    (tmp_path / "a.yaml").write_text("learner: ppo")
    assert _parse(argv, "drift")["settings"]["evolve"] == "drift"
    with pytest.raises(ConfigError, match="missing key 'evolve'"):
        _parse(argv, None)


def test_quick_keeps_settings_of_the_command_line():
    argv = ["--quick", "--evaluation.seeds", "11", "--generations", "9"]
    settings = settings_of(_parse(argv, None)["settings"])
    assert settings.run.quick
    assert (settings.evaluation.seeds, settings.evolution.generations) == (11, 9)
    assert (settings.strategy.population_size, settings.evaluation.selection_seeds) == (8, 2)
    of_ppo = settings_of(_parse(["--quick", "--learner", "ppo"], "value_loss")["settings"])
    assert (of_ppo.evaluation.settings, of_ppo.evaluation.finalists) == (1, 2)
