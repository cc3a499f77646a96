"""Evolutions as real processes: started, watched and ended, and what they leave on disk."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from metaevo.runs.checkpoint import load_tree
from metaevo.runs.run_directory import RunDirectory
from tests.compiling import SHORT

ROOT = Path(__file__).parent.parent.parent
GENERATIONS = 80  # of some milliseconds each, so that there is time to interrupt
# Two devices evaluate 14 agents in chunks of 2, four in chunks of 3 with one idle: uneven.
TINY = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 4}}
train: {total_timesteps: 100, num_steps: 50}
hyperparams: {learning_rate: 0.2, epsilon_start: 0.1}
component: {hidden_sizes: [4]}
fitness: {mean_return: 0.0, reward_per_step: 200.0}
strategy: {algorithm: SNES, population_size: 7, sigma: 0.2, learning_rate: 0.05}
evolution: {generations: 80, seeds_per_candidate: 2, validation_every: 4, validation_seeds: 3,
            block_size: 1}
evaluation: {seeds: 0}
"""


DRAWS_LITTLE = """
import runpy, sys
from metaevo.reports import film, plots
film.FRAMES, plots.DPI = 3, 50
sys.argv[0] = "experiments/evolve_value_loss.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The script; the film of a report takes longer than its evolution."""


def start(place, run_dir, *arguments, devices=2, new=True):
    """A process of the script on so many devices of its own.

    `place` has the settings, tiny.yaml; compiled programs are kept there for other processes.
    """
    settings = ["--config", place / "tiny.yaml"] if new else ["--resume"]
    command = [sys.executable, "-c", DRAWS_LITTLE, *settings]
    env = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {SHORT}",
        "JAX_COMPILATION_CACHE_DIR": str(place / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    env.pop("WANDB_MODE", None)
    return subprocess.Popen(
        [str(each) for each in (*command, "--run-dir", run_dir, *arguments)],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process, *codes):
    """What it printed, once it has ended with one of these exit codes (0 by default)."""
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode in (codes or (0,)), stderr
    return stdout, stderr


def wait_for_generations(process, run_dir, count):
    """Return as soon as so many generations are logged, while the process goes on."""
    deadline = time.monotonic() + 240
    path = run_dir / "metrics.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def metrics(run_dir, kind="generation"):
    """The records of metrics.jsonl but for the time, which no two runs share."""
    records = RunDirectory(run_dir).read_metrics(kind)
    return [{key: record[key] for key in record if key != "seconds"} for record in records]


def checkpoints(run_dir):
    return sorted(path.stem for path in (run_dir / "checkpoints").iterdir())


def state(run_dir):
    path = run_dir / "checkpoints" / f"{checkpoints(run_dir)[-1]}.npz"
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files if name != "metadata"}


def assert_same_run(one, other, generations):
    """To the bit, with each of so many generations once."""
    assert [each["generation"] for each in metrics(one)] == list(range(generations))
    assert metrics(one) == metrics(other)
    states = state(one), state(other)
    assert states[0].keys() == states[1].keys()
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name], err_msg=name)
    trees = [load_tree(path / "meta_params.npz")[0] for path in (one, other)]
    assert str(trees[0]) == str(trees[1])
