"""A resumed run, and a command that cannot continue it."""

import pytest

from metaevo.__main__ import main
from metaevo.runs.run_directory import RunDirectory


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
    ],
)
def test_a_dry_run_computes_and_writes_nothing(line, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*line.split(), "--dry-run"]) == 0
    assert shown in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
