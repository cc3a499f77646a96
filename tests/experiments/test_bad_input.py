"""Wrong input: one line on stderr, exit code 2, before compilation, without a traceback."""

from pathlib import Path

import pytest

from metaevo.commands.evolve import main
from metaevo.studies import run as runner

CASES = {
    # a command line, and the setting or value that its complaint names
    "--evolutoin.generations 3": "evolutoin",
    "--strategy.populaton_size 8": "strategy.populaton_size",
    "--hyperparams.learning_rate .nan": "hyperparams.learning_rate",
    "--train.num_minibatches 3": "num_minibatches",
    "--task.env CartPoel-v1": "CartPole-v1",
    "--learner dqn --strategy.algorithm meta_gradient": "strategy.algorithm",
    "--evolve formula --component.expression ().__class__ --component.constants {}": (
        "component: expression"
    ),
    "--evaluation.space.lerning_rate [1]": "lerning_rate",
    "--evolution.num_devices 99": "devices",
    "--fitness.mean_return 0": "fitness",
    "--mlflow mlruns": "mlflow",
    "--learner q_learning --task.env CartPole-v1": "task.env",
    "--learner q_learning --evolve drift": "q_learning",
    "--evolve lpg": "update_rule",
    "--resume": "--run-dir",
    "--resume --run-dir missing": "missing",
}


@pytest.fixture
def complain(refused, monkeypatch):
    """Run a command line in this process; the complaint. Building the loop would be too late."""
    monkeypatch.setattr(runner, "Evolution", None)

    def run(*argv):
        return refused(main, [str(each) for each in argv], component="value_loss", description="")

    return run


@pytest.mark.parametrize("line", CASES)
def test_the_complaint_names_the_setting(complain, line, tmp_path):
    argv = line.split()
    if "--learner" not in argv:
        argv = ["--learner", "ppo", *argv]
    if "--run-dir" not in argv and "--resume" not in argv:
        argv += ["--run-dir", tmp_path / "run"]
    assert CASES[line] in complain(*argv)
    assert not (tmp_path / "run").exists()


def test_unwritable_run_directory(complain, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in complain("--run-dir", tmp_path / "file" / "run")
    assert "cannot be written" in complain("--run-dir", tmp_path / "file")
    if Path("/proc/version").exists():  # where not even root may write
        assert "cannot be written" in complain("--run-dir", "/proc/run")


def test_a_directory_that_holds_a_run(complain, tmp_path):
    (tmp_path / "config.yaml").write_text("config: {}\n")
    assert "already holds a run" in complain("--run-dir", tmp_path)
