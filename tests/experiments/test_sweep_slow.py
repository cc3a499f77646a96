"""A thousand trials in one study: memory must not grow with them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 4, max_steps_in_episode: 20}}
train: {total_timesteps: 900, num_steps: 100}
fitness: {mean_return: 0.0, reward_per_step: 1.0}
space:
  hyperparams.learning_rate: {log_uniform: [0.01, 0.9]}
  hyperparams.epsilon_start: {uniform: [0.1, 1.0]}
sweep: {sampler: random, trials: 1000, seeds: 4, batch: 20, confirm_seeds: 0}
run: {num_devices: 1}
"""
BOUND = 40
"""MiB between 200 and 1,000 trials; 128 KiB that leak in every trial would be 100"""


def growth(directory, kib):
    directory.mkdir()
    config = directory / "sweep.yaml"
    config.write_text(SETTINGS)
    script = [sys.executable, str(Path(__file__).with_name("sweep_memory.py")), str(kib)]
    done = subprocess.run(
        [*script, "200,1000", "--config", str(config), "--run-dir", str(directory / "run")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found["code"] == 0
    return found["memory"]["1000"] - found["memory"]["200"]


@pytest.mark.slow
def test_a_thousand_trials_do_not_fill_the_memory(tmp_path):
    assert growth(tmp_path / "clean", 0) < BOUND
    assert growth(tmp_path / "leaking", 128) > BOUND  # the measurement sees a leak
