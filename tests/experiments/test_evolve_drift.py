"""A tiny evolution of a drift, as a real process, to its report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import metaevo

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent
TINY = """
learner: ppo
task: {env: CartPole-v1}
train: {total_timesteps: 256, num_envs: 2, num_steps: 16, update_epochs: 2, num_minibatches: 1,
        hidden_sizes: [8]}
hyperparams: {learning_rate: 2e-2}
component: {hidden_size: 4, start: random}
strategy: {population_size: 4, sigma: 0.5}
evolution: {generations: 3, validation_every: 2, validation_seeds: 2, chunk_size: 1}
evaluation: {seeds: 4, sampler: grid, space: {learning_rate: [1e-2, 3e-2]}, tuning_seeds: 2}
"""


def test_a_run_is_compared_drawn_and_reported(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    run_dir = tmp_path / "run"
    command = [sys.executable, "-m", "metaevo", "evolve", "--evolve", "drift"]
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiling is what takes time here
    }
    done = subprocess.run(
        [*command, "--config", str(tmp_path / "tiny.yaml"), "--run-dir", str(run_dir)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((run_dir / "evaluation.json").read_text())
    assert {row["name"] for row in result["variants"]} == {
        "learned (same hyperparameters)", "clipped_surrogate (same hyperparameters)",
        "learned (tuned)", "clipped_surrogate (tuned)", "dpo (tuned)",
    }  # fmt: skip
    assert "ablation" not in result  # it belongs to value losses
    figures = {path.name for path in (run_dir / "figures").iterdir()}
    assert figures >= {"fitness.png", "policy_loss.png", "scores.png", "learning_curves.png"}
    assert (run_dir / "report.html").is_file()
    policy_loss, meta_params = metaevo.load(run_dir)
    assert meta_params["hidden"].shape == (8, 4)
    assert policy_loss(meta_params, None, 0.0, 2.0) == -2.0
