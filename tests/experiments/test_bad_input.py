"""Wrong input: one line on stderr, exit code 2, before compilation, without a traceback."""

import shlex

import pytest

from metaevo.commands import evolve, sweep, train
from metaevo.evolution import devices
from metaevo.studies import run as runner
from metaevo.tasks.population import Population

MAINS = {
    "evolve": lambda argv: evolve.main(["--evolve", "value_loss", *argv]),
    "train": train.main,
    "sweep": sweep.main,
}
RANGES = "--space {hyperparams.gamma:{uniform:[0,1]},hyperparams.learning_rate:{uniform:[0,1]}}"
CASES = [
    # a command, its line, and what its complaint contains; many were found by fuzzing
    ("evolve", "--evolution.num_devices 99", "devices"),
    ("evolve", "--fitness.mean_return 0", "fitness"),
    ("evolve", "--mlflow mlruns", "mlflow"),
    ("evolve", "--evolve lpg", "update_rule"),
    ("evolve", "--resume", "--run-dir"),
    ("evolve", "--evolve {}", "evolve"),
    ("evolve", "--component.hidden_sizes [24,2147483647]", "GiB of memory"),
    ("evolve", "--learner q_learning --task.env_params.size 8000000", "size"),
    ("evolve", "--learner q_learning --task.env_params.size [2,8000000]", "size"),
    ("evolve", "--strategy.learning_rate 1e39", "strategy.learning_rate"),
    ("evolve", "--strategy.population_size 9007199254740992", "strategy.population_size"),
    ("evolve", "--strategy.population_size 1000000000 --evolution.seeds_per_candidate 4", ""),
    ("evolve", "--train.total_timesteps 2000000000 --train.num_envs 20000000 "
     "--train.num_steps 100", ""),
    ("evolve", "--evolution.chunk_size 1000000 --strategy.population_size 1000000", ""),
    ("evolve", "--strategy.algorithm CMA_ES --component.hidden_sizes [200,200]", "GiB of memory"),
    ("evolve", "--component.error_scale 1e38", "component"),
    ("evolve", r"""--task.env '"\ud800"'""", "task.env"),
    ("evolve", "--task.env '!!python/object/apply:os.system [true]'", "task.env"),
    ("evolve", "--task.env no.py:X", "error: task.env = 'no.py:X': there is no file 'no.py'"),
    ("evolve", "--evolve ../../etc/passwd", "evolve"),
    ("train", "--task.env [CartPole-v1,Acrobot-v1]", "task.env"),
    ("train", "--learner lpg --task.env GridWorlds", "task.env = 'GridWorlds': is a distribution"),
    ("train", "--learner dqn --schedule linear", "schedule = 'linear': must be one of constant, "),
    ("evolve", "--learner dqn --schedule linear", "schedule = 'linear': must be one of constant, "),
    ("train", "--learner purerl/sac.py:LEARN", "LEARNER"),
    ("train", "--learner purerl/sac.py:SAC", "must be a purerl.types.LearnerEntry"),
    ("train", "--learner no_such_package.a:sac", "no_such_package"),
    ("train", "--policy_loss squared", "clipped_surrogate"),
    ("train", "--task.env Breakout-MinAtar --evaluation.gymnasium 1", "evaluation.gymnasium = 1"),
    ("train", "--task.env Catch-bsuite --evaluation.film true", "evaluation.film = true"),
    ("train", "--fitness.evaluation_return 1 --fitness.evaluations 0", "fitness.evaluations = 0"),
    ("train", "--fitness.evaluation_return 1 --fitness.evaluation_episodes 0",
     "fitness.evaluation_episodes = 0"),
    ("train", "--fitness.evaluations 4", "evaluations = 4: needs evaluation_return > 0"),
    ("evolve", "--fitness.evaluation_return 1 --fitness.evaluation_episodes 9000000", "2^31"),
    ("train", "--seeds 2147483647", "seeds"),
    ("train", "--learner dqn --train.buffer_size 2000000000", ""),
    ("train", f"--value_loss {'x' * 300}", "value_loss"),
    ("train", f"--resume --run-dir {'x' * 300}", ""),
    ("train", f"--config {'x' * 300}", ""),
    ("sweep", f"{RANGES} --sweep.sampler cma_es --sweep.scheduler successive_halving",
     "needs sweep.scheduler = 'none', not 'successive_halving'"),
    ("sweep", "--space.value_loss [huber,cubic]", "space.value_loss = 'cubic'"),
    ("sweep", f"{RANGES} --sweep.storage foo", "must be a URL like"),
    ("sweep", "--evolve value_loss --sweep.scheduler hyperband "
     "--space {strategy.sigma:{uniform:[0.1,0.3]}}", "sweep.scheduler = 'hyperband'"),
    ("sweep", "--evolve value_loss --evolution.validation_seeds 0 "
     "--space {strategy.sigma:{uniform:[0.1,0.3]}}", "evolution.validation_seeds = 0"),
    ("sweep", f"{RANGES} --run.num_devices 999", "run.num_devices = 999"),
    ("sweep", "--sweep.seeds 4000000000", "sweep.seeds"),
    ("sweep", "--sweep.trials 1000000000", "sweep.trials"),
    ("sweep", "--config configs/sweep/evolution_q_learning.yaml "
     "--component.hidden_sizes [999999999]", "GiB of memory"),
    ("sweep", "--space.hyperparams.gamma '{uniform: [0, 1e39]}'", "gamma"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "line", "text"), CASES)
def test_the_error_names_the_setting(command, line, text, tmp_path, monkeypatch, refused):
    monkeypatch.setattr(devices, "memory_bytes", lambda: 8 * 2**30)
    monkeypatch.setattr(runner, "Evolution", None)  # building the loop would be too late
    monkeypatch.setattr(Population, "init", None)
    argv = shlex.split(line)
    if command == "evolve" and "--learner" not in argv:
        argv = ["--learner", "ppo", *argv]
    if "--resume" not in argv:
        argv += ["--run-dir", str(tmp_path / "run")]
    assert text in refused(MAINS[command], argv)
    assert not (tmp_path / "run").exists()
