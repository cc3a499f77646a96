"""Generated settings are accepted, or refused in one line."""

import os
import shlex

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from metaevo.config import dump_yaml
from tests.faults.fuzzing import SCRIPTS, attempts

EXAMPLES = int(os.environ.get("METAEVO_FUZZ_EXAMPLES", "5000"))
"""Of the long fuzzing, per script."""

BUGS = [
    # found by the generated attempts: a script, and a command line that it must refuse
    *(("evolve_value_loss", line) for line in (
        "--learner [ppo]",
        "--learner ppo --evolve {}",
        "--component.hidden_sizes [24,2147483647]",  # a network of 16 GiB
        "--learner q_learning --task.env_params.size 8000000",
        "--learner q_learning --task.env_params.size [2,8000000]",
        "--strategy.learning_rate 1e39",
        "--strategy.population_size 9007199254740992",
        "--strategy.population_size 1000000000 --evolution.seeds_per_candidate 4",
        "--train.total_timesteps 2000000000 --train.num_envs 20000000 --train.num_steps 100",
        "--evolution.chunk_size 1000000 --strategy.population_size 1000000",
        "--strategy.algorithm CMA_ES --component.hidden_sizes [200,200]",
        "--component.error_scale 1e38",
        r"""--task.env '"\ud800"'""",
        "--task.env '!!python/object/apply:os.system [true]'",
        "--evolve ../../etc/passwd",
    )),
    ("train", "--seeds 2147483647"),
    ("train", "--learner dqn --train.buffer_size 2000000000"),
    ("sweep", "--sweep.seeds 4000000000"),
    ("sweep", "--sweep.trials 1000000000"),
    ("sweep", "--config configs/sweep/evolution_q_learning.yaml "
              "--component.hidden_sizes [999999999]"),
    ("train", f"--value_loss {'x' * 300}"),
    ("train", f"--resume --run-dir {'x' * 300}"),
    ("train", f"--config {'x' * 300}"),
    ("sweep", "--space.hyperparams.gamma '{uniform: [0, 1e39]}'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line"), BUGS)
def test_inputs_that_once_failed_are_refused(name, line, tmp_path):
    learner = ["--learner", "ppo"] if name.startswith("evolve") and "--learner" not in line else []
    argv = ["--run-dir", str(tmp_path / "run"), *learner, *shlex.split(line)]
    assert SCRIPTS[name].attempt(argv) is not None


def fuzz(name, examples, folder, *, derandomize=True):
    script, accepted = SCRIPTS[name], []

    @settings(
        max_examples=examples,
        derandomize=derandomize,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(attempts(script))
    def run(attempt):
        config, overrides = attempt
        path = folder / "config.yaml"
        path.write_text(dump_yaml(config), encoding="utf-8")
        argv = ["--config", str(path), "--run-dir", str(folder / "run"), *overrides]
        accepted.append(script.attempt(argv) is None)

    run()
    assert any(accepted), "if nothing is accepted, this shows nothing"
    assert not (folder / "run").exists()
    print(f"{name}: {len(accepted)} command lines, {sum(accepted)} of them accepted")


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_any_settings_are_accepted_or_refused_in_one_line(name, tmp_path):
    fuzz(name, 5, tmp_path)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_many_settings(name, tmp_path):
    fuzz(name, EXAMPLES, tmp_path, derandomize=False)
