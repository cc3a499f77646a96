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


@pytest.mark.parametrize("line", CASES)
def test_the_error_names_the_setting(line, tmp_path, monkeypatch, refused):
    monkeypatch.setattr(runner, "Evolution", None)  # building the loop would be too late
    argv = line.split()
    if "--learner" not in argv:
        argv = ["--learner", "ppo", *argv]
    if "--resume" not in argv:
        argv += ["--run-dir", str(tmp_path / "run")]
    assert CASES[line] in refused(main, argv, component="value_loss")
    assert not (tmp_path / "run").exists()
