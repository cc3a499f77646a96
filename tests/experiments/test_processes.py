"""An evolution over several real processes: the same run as in one, stopped, killed, resumed."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
GENERATIONS = 80
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
            block_seconds: 0.001}
evaluation: {seeds: 0, tuning_seeds: 2, ablation_seeds: 0}
run: {checkpoint_every: 7}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the settings; compiled programs are kept there for the other processes."""
    path = tmp_path_factory.mktemp("processes")
    (path / "tiny.yaml").write_text(TINY)
    return path


def start(place, run_dir, *arguments, devices=1, new=True):
    """A process of the script on so many devices of its own."""
    settings = ["--config", place / "tiny.yaml"] if new else ["--resume"]
    command = [sys.executable, "experiments/evolve_value_loss.py", *settings, *arguments]
    env = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_COMPILATION_CACHE_DIR": str(place / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    return subprocess.Popen(
        [*map(str, command), "--run-dir", str(run_dir)],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_all(place, run_dir, count, *arguments, **options):
    """So many processes that run together."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    flags = ["--coordinator", coordinator, "--processes", count, "--process"]
    return [start(place, run_dir, *flags, i, *arguments, **options) for i in range(count)]


def finish(process, *codes):
    """What it printed, once it has ended with one of these exit codes."""
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


def metrics(run_dir):
    """The records of metrics.jsonl but for the time, which no two runs share."""
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": None} for line in lines]


def state(run_dir):
    """The arrays of the newest checkpoint."""
    path = max((run_dir / "checkpoints").iterdir()) / "state.npz"
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def assert_same_run(one, other):
    """To the bit."""
    assert [each["generation"] for each in metrics(one)] == list(range(GENERATIONS))
    assert metrics(one) == metrics(other)
    states = state(one), state(other)
    assert states[0].keys() == states[1].keys()
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name], err_msg=name)


def reference(place, devices):
    """The run of one process on so many devices."""
    run_dir = place / f"reference_{devices}"
    if not run_dir.exists():
        finish(start(place, run_dir, devices=devices))
    return run_dir


def test_two_processes_stop_together_go_on_and_are_one_run(place, tmp_path):
    """The second one gets the signal; the first one alone says where the run is."""
    run_dir = tmp_path / "run"
    processes = start_all(place, run_dir, 2)
    wait_for_generations(processes[0], run_dir, 10)
    processes[1].send_signal(signal.SIGTERM)
    _, stderr = finish(processes[0], 143)
    assert "--resume --run-dir" in stderr
    assert "on 2 devices of 2 processes" in stderr
    stdout, _ = finish(processes[1], 143)
    assert str(run_dir) not in stdout
    stopped = len(metrics(run_dir))
    assert 10 <= stopped < GENERATIONS
    assert max((run_dir / "checkpoints").iterdir()).name == f"{stopped:06d}"

    leader, follower = start_all(place, run_dir, 2, new=False)
    stdout, stderr = finish(leader)
    assert f"report: {run_dir / 'report.html'}" in stdout
    assert "rounding" not in stderr
    finish(follower)
    assert_same_run(run_dir, reference(place, 2))


def test_wrong_settings_end_all_processes(place, tmp_path):
    processes = start_all(place, tmp_path / "run", 2, "--strategy.population_size", "0")
    for process in processes:
        _, stderr = finish(process, 2)
        assert stderr.count("error: ") == 1
        assert "population_size" in stderr
        assert "Traceback" not in stderr
    assert not (tmp_path / "run").exists()


# --- Longer ones: make test-faults ----------------------------------------------------------------


@pytest.mark.faults
def test_four_processes_are_one_run(place, tmp_path):
    for process in start_all(place, tmp_path / "run", 4):
        finish(process)
    assert_same_run(tmp_path / "run", reference(place, 4))


@pytest.mark.faults
@pytest.mark.parametrize("victim", [0, 1])
def test_one_of_two_is_killed_all_end_and_a_restart_is_the_same_run(place, tmp_path, victim):
    run_dir, moment = tmp_path / "run", random.Random(victim).randrange(5, GENERATIONS - 30)
    processes = start_all(place, run_dir, 2, "--heartbeat", "10")
    wait_for_generations(processes[0], run_dir, moment)
    processes[victim].kill()
    finish(processes[victim], -signal.SIGKILL)
    _, stderr = finish(processes[1 - victim], 1, -signal.SIGABRT)
    assert re.search(r"cannot go on|distributed service", stderr)
    assert not (run_dir / "report.html").exists()
    for process in start_all(place, run_dir, 2, new=False):
        finish(process)
    assert_same_run(run_dir, reference(place, 2))


@pytest.mark.faults
def test_another_number_of_processes_goes_on_up_to_rounding(place, tmp_path):
    """Over a short horizon: one device, then two processes, then one process on two devices."""
    run_dir, total = tmp_path / "run", 6
    finish(start(place, run_dir, "--generations", 2))
    leader, follower = start_all(place, run_dir, 2, "--generations", 4, new=False)
    _, stderr = finish(leader)
    assert "num_devices = 1 and goes on with 2" in stderr
    finish(follower)
    finish(start(place, run_dir, "--generations", total, devices=2, new=False))
    expected = metrics(reference(place, 2))[:total]
    assert len(metrics(run_dir)) == total
    for one, other in zip(metrics(run_dir), expected, strict=True):
        for name in ("fitness_mean", "fitness_std", "sigma"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, err_msg=name)
