"""Evolutions as one and as several real processes: finished, refused, stopped, killed, resumed."""

import random
import re
import signal
import socket

import numpy as np
import pytest

from tests.experiments import evolving
from tests.experiments.evolving import GENERATIONS, assert_same_run, finish, metrics, start

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the file's settings; processes keep compiled programs there."""
    path = tmp_path_factory.mktemp("place")
    (path / "tiny.yaml").write_text(evolving.TINY)
    return path


def start_all(place, run_dir, count, *arguments, new=True):
    """So many processes that run together, with a device each."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    flags = ["--coordinator", coordinator, "--processes", count, "--process"]
    return [start(place, run_dir, *flags, i, *arguments, devices=1, new=new) for i in range(count)]


def reference(place, devices):
    """The run of one process on so many devices."""
    run_dir = place / f"reference_{devices}"
    if not run_dir.exists():
        finish(start(place, run_dir, devices=devices))
    return run_dir


def test_a_killed_run_resumes_exactly(place, tmp_path):
    run_dir = tmp_path / "killed"
    process = start(place, run_dir)
    evolving.wait_for_generations(process, run_dir, 10)
    # Another process that resumes it is refused.
    process.send_signal(signal.SIGSTOP)  # so that it cannot end in the meantime
    _, error = finish(start(place, run_dir, new=False), 2)
    assert re.fullmatch(rf"error: .* in use by another run \(process {process.pid}\)\n", error)
    process.kill()
    finish(process, -signal.SIGKILL)
    assert 10 <= (run_dir / "metrics.jsonl").read_bytes().count(b"\n") < GENERATIONS
    finish(start(place, run_dir, new=False))
    assert_same_run(run_dir, reference(place, 2), GENERATIONS)


def test_two_processes_stop_and_resume_as_one_run(place, tmp_path):
    """The second one gets the signal; the first one alone says where the run is."""
    run_dir = tmp_path / "run"
    processes = start_all(place, run_dir, 2)
    evolving.wait_for_generations(processes[0], run_dir, 10)
    processes[1].send_signal(signal.SIGTERM)
    _, stderr = finish(processes[0], 143)
    assert "--resume --run-dir" in stderr
    assert "on 2 devices of 2 processes" in stderr
    stdout, _ = finish(processes[1], 143)
    assert str(run_dir) not in stdout
    stopped = len(metrics(run_dir))
    assert 10 <= stopped < GENERATIONS
    assert evolving.checkpoints(run_dir)[-1] == f"{stopped:06d}"

    leader, follower = start_all(place, run_dir, 2, new=False)
    stdout, stderr = finish(leader)
    assert f"report: {run_dir / 'report.html'}" in stdout
    assert "rounding" not in stderr
    finish(follower)
    assert_same_run(run_dir, reference(place, 2), GENERATIONS)


# Longer ones: make test-faults


@pytest.mark.faults
@pytest.mark.parametrize(("count", "victim"), [(2, 0), (2, 1), (4, 0), (4, 2)])
def test_a_restart_after_a_killed_process_is_the_same_run(place, tmp_path, count, victim):
    run_dir, moment = tmp_path / "run", random.Random(victim).randrange(5, GENERATIONS - 30)
    processes = start_all(place, run_dir, count)
    evolving.wait_for_generations(processes[0], run_dir, moment)
    processes[victim].kill()
    finish(processes.pop(victim), -signal.SIGKILL)
    for process in processes:
        finish(process, 1, -signal.SIGABRT)  # JAX may end the process before Python can
    assert not (run_dir / "report.html").exists()
    for process in start_all(place, run_dir, count, new=False):
        finish(process)
    assert_same_run(run_dir, reference(place, count), GENERATIONS)


@pytest.mark.faults
def test_another_number_of_processes_resumes_up_to_rounding(place, tmp_path):
    """Over a short horizon: one device, then two processes, then one process on two devices."""
    run_dir, total = tmp_path / "run", 6
    finish(start(place, run_dir, "--generations", 2, devices=1))
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
