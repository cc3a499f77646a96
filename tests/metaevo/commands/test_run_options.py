import contextlib

import pytest

from metaevo.__main__ import COMMANDS, main
from metaevo.runs.run_directory import RunDirectory
from tests import processes


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
