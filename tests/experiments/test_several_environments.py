"""One loss for CartPole-v1 and Acrobot-v1: scales are measured, kept with the run, and used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from metaevo.config import load_yaml

ROOT = Path(__file__).parent.parent.parent
ENVS = ("CartPole-v1", "Acrobot-v1")
TINY = """
learner: ppo
task: {env: [CartPole-v1, Acrobot-v1]}
train: {total_timesteps: 4096, num_envs: 4, num_steps: 64, update_epochs: 4, num_minibatches: 2,
        hidden_sizes: [16]}
hyperparams: {learning_rate: 1e-2}
component: {hidden_sizes: [4]}
strategy: {population_size: 2}
evolution: {generations: 1, validation_every: 1, validation_seeds: 1}
evaluation: {seeds: 12}
"""


def test_fitness_is_normalised_by_what_was_measured(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    run_dir = tmp_path / "run"
    command = [
        sys.executable, "experiments/evolve_value_loss.py", "--config", tmp_path / "tiny.yaml",
        "--run-dir", run_dir,
    ]  # fmt: skip
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [*map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr

    measured = load_yaml(run_dir / "config.yaml")["resolved"]["normalisation"]
    random, reference = measured["random"], measured["reference"]
    assert 18 < random[0] < 27
    assert -500 <= random[1] < -490
    assert reference[0] > random[0] + 5
    assert reference[1] > random[1] + 20

    first = json.loads((run_dir / "metrics.jsonl").read_text().splitlines()[0])
    returns = [first[f"{name}/mean_return"] for name in ENVS]
    parts = (np.array(returns) - random) / np.subtract(reference, random)
    assert first["fitness_mean"] == pytest.approx(np.mean(parts), abs=1e-3)

    result = json.loads((run_dir / "evaluation.json").read_text())
    scores = {row["name"]: np.array(row["scores"]) for row in result["variants"]}
    squared = scores["squared (same hyperparameters)"]
    assert squared.shape == (12, 2)
    # On other seeds than those that measured its scale, the reference is worth about 1 in each.
    assert (np.abs(squared.mean(0) - 1) < 0.5).all()
    figures = {path.name for path in (run_dir / "figures").iterdir()}
    assert figures == {"fitness.png", "loss.png", "scores.png"} | {
        f"learning_curves_{name}.png" for name in ENVS
    }
