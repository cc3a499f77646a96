"""Wrong input: one line on stderr, exit code 2, before compilation, without a traceback."""

import pytest

from metaevo.commands.evolve import main
from metaevo.studies import run as runner

CASES = {
    # a command line, and the setting or value that its complaint names
    "--strategy.populaton_size 8": "strategy.populaton_size",
    "--evolve formula --component.expression ().__class__ --component.constants {}": (
        "component: expression"
    ),
    "--evaluation.space.lerning_rate [1]": "lerning_rate",
    "--evolution.num_devices 99": "devices",
    "--fitness.mean_return 0": "fitness",
    "--mlflow mlruns": "mlflow",
    "--learner q_learning --evolve drift": "q_learning",
    "--evolve lpg": "update_rule",
    "--resume": "--run-dir",
}


@pytest.fixture
def error_of(refused, monkeypatch):
    """Run a command line in this process; the complaint. Building the loop would be too late."""
    monkeypatch.setattr(runner, "Evolution", None)

    def run(*argv):
        return refused(main, [str(each) for each in argv], component="value_loss", description="")

    return run


@pytest.mark.parametrize("line", CASES)
def test_the_error_names_the_setting(error_of, line, tmp_path):
    argv = line.split()
    if "--learner" not in argv:
        argv = ["--learner", "ppo", *argv]
    if "--resume" not in argv:
        argv += ["--run-dir", tmp_path / "run"]
    assert CASES[line] in error_of(*argv)
    assert not (tmp_path / "run").exists()
