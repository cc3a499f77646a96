import contextlib
import json

import pytest

from metaevo.__main__ import COMMANDS, main
from metaevo.commands.evolve import _parse
from metaevo.config import ConfigError, load_yaml
from metaevo.runs.run_directory import RunDirectory
from tests import processes
from tests.metaevo.evolving import settings_of
from tests.processes import ROOT


@pytest.mark.parametrize(
    ("command", "config", "complaint"),
    [
        ("train", {"evolve": "value_loss"}, "unknown key 'evolve'"),
        ("train", {"space": {}}, "unknown key 'space'"),
        ("evolve", {"learner": "ppo", "seeds": 3}, "evolve"),
        ("sweep", {"learner": "ppo"}, "nothing to try"),
    ],
)
def test_another_command_does_not_continue_a_run(command, config, complaint, tmp_path, refused):
    run = RunDirectory.create(tmp_path / "run", "test")
    run.write_config(config, {"run_id": "a"})
    before = run.config_path.read_bytes()
    assert complaint in refused(main, [command, "--resume", "--run-dir", str(run.path)])
    assert run.config_path.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("train --learner q_learning --task.env GridWorld --seeds 3", "frames of all"),
        ("evolve --evolve value_loss --generations 2 --strategy.population_size 4", "160,000"),
        ("sweep --config sweep/ppo_cartpole --sweep.trials 3", "3 of 4 seeds"),
        ("generality dpo --tasks cartpole", "to tune"),
    ],
)
def test_a_dry_run_computes_and_writes_nothing(line, shown, tmp_path):
    """In a new process, where a command has to set up JAX's devices before anything starts JAX."""
    assert shown in processes.metaevo(*line.split(), "--dry-run", cwd=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [name for name in ["", *COMMANDS] if name != "reproduce"])
def test_help_fits_a_screen(command, capsys):
    with contextlib.suppress(SystemExit):
        assert main([*command.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 10 < len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_settings_are_passed_to_other_processes():
    path = ROOT / "configs" / "evolve_lpg" / "lpg.yaml"
    given = _parse(["--config", str(path), "--run-dir", "runs/a"])
    received = json.loads(json.dumps(given))
    assert received["run_dir"] == "runs/a"
    assert received["resume"] is False
    # Classes are made anew for every run: what they hold is compared.
    assert repr(settings_of(received["settings"])) == repr(settings_of(given["settings"]))


def test_short_flags_are_settings():
    argv = ["--devices", "2", "--generations", "7", "--wandb", "offline", "--coordinator", "a:1"]
    settings = settings_of(_parse(argv)["settings"])
    assert settings.evolution.num_devices == 2
    assert settings.evolution.generations == 7
    assert settings.run.wandb == "offline"


@pytest.mark.parametrize(
    ("argv", "preset"),
    [
        ("", "evolve_value_loss/q_learning"),
        ("--evolve optimizer", "evolve_optimizer/ppo"),
        ("--learner ppo", "evolve_optimizer/ppo"),
        ("--evolve value_loss --learner ppo", "evolve_value_loss/ppo"),
        ("--learner dqn", "evolve_value_loss/dqn"),
        ("--evolve lpg --evolve drift", "evolve_drift/ppo"),
    ],
)
def test_a_run_without_settings_uses_a_preset(argv, preset):
    given = _parse(argv.split())["settings"]
    shipped = settings_of(load_yaml(ROOT / "configs" / f"{preset}.yaml"))
    assert repr(settings_of(given)) == repr(shipped)


def test_a_custom_component_uses_the_preset_of_its_slot():
    tilted = str(ROOT / "examples" / "tilted.py")
    given = _parse(["--evolve", tilted])["settings"]
    shipped = load_yaml(ROOT / "configs/evolve_value_loss/q_learning.yaml")
    assert given["evolve"] == tilted
    assert given["learner"] == "q_learning"
    assert given["strategy"]["population_size"] == shipped["strategy"]["population_size"]
    assert given["component"].keys() == {"slope_scale"}  # its own settings, not another's


def test_a_config_names_the_component(tmp_path):
    (tmp_path / "a.yaml").write_text("evolve: drift")
    argv = ["--config", str(tmp_path / "a.yaml")]
    assert _parse(argv)["settings"]["evolve"] == "drift"
    (tmp_path / "a.yaml").write_text("learner: ppo")
    assert _parse([*argv, "--evolve", "drift"])["settings"]["evolve"] == "drift"
    with pytest.raises(ConfigError, match="missing key 'evolve'"):
        _parse(argv)


def test_quick_keeps_settings_of_the_command_line():
    argv = ["--quick", "--evaluation.seeds", "11", "--generations", "9"]
    settings = settings_of(_parse(argv)["settings"])
    assert settings.run.quick
    assert (settings.evaluation.seeds, settings.evolution.generations) == (11, 9)
    assert (settings.strategy.population_size, settings.evaluation.selection_seeds) == (8, 2)
    argv = ["--quick", "--evolve", "value_loss", "--learner", "ppo"]
    of_ppo = settings_of(_parse(argv)["settings"])
    assert (of_ppo.evaluation.settings, of_ppo.evaluation.finalists) == (1, 2)
