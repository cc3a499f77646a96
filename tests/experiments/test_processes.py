import random
import re
import signal
import socket

import numpy as np
import pytest

from tests.faults.works import WORKS, checkpoints_in, count_records, records, wait_for

pytestmark = pytest.mark.long

WORK = WORKS["uneven"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def reference(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("references")

    def run_dir(devices):
        if not (folder / str(devices)).exists():
            WORK.run(folder / str(devices), cache, devices=devices)
        return folder / str(devices)

    return run_dir


def start_all(cache, run_dir, count, *arguments):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    flags = ["--coordinator", coordinator, "--processes", count, *arguments, "--process"]
    return [WORK.start(run_dir, cache, *flags, index, devices=1) for index in range(count)]


def wait_for_generations(process, run_dir, count):
    wait_for(lambda: count_records(run_dir) >= count, process)


def test_a_killed_run_resumes_exactly(cache, reference, tmp_path):
    run_dir = tmp_path / "killed"
    process = WORK.start(run_dir, cache)
    wait_for_generations(process, run_dir, 10)
    # Another process that resumes it is refused.
    process.send_signal(signal.SIGSTOP)  # so that it cannot end in the meantime
    error = WORK.run(run_dir, cache, code=2)
    assert re.fullmatch(rf"error: .* in use by another run \(process {process.pid}\)\n", error)
    process.kill()
    process.ended(-signal.SIGKILL)
    assert 10 <= count_records(run_dir) < WORK.total
    WORK.run(run_dir, cache)
    assert WORK.result(run_dir) == WORK.result(reference(2))


def test_two_processes_stop_and_resume_as_one_run(cache, reference, tmp_path):
    """The second one gets the signal; the first one alone says where the run is."""
    run_dir = tmp_path / "run"
    leader, follower = start_all(cache, run_dir, 2)
    wait_for_generations(leader, run_dir, 10)
    follower.send_signal(signal.SIGTERM)
    error = leader.ended(143)
    assert "--resume --run-dir" in error
    assert "on 2 devices of 2 processes" in error
    follower.ended(143)
    assert str(run_dir) not in follower.printed
    stopped = count_records(run_dir)
    assert 10 <= stopped < WORK.total
    assert checkpoints_in(run_dir)[-1].stem == f"{stopped:06d}"

    leader, follower = start_all(cache, run_dir, 2)
    assert "rounding" not in leader.ended(0)
    assert f"report: {run_dir / 'report.html'}" in leader.printed
    follower.ended(0)
    assert WORK.result(run_dir) == WORK.result(reference(2))


# Longer ones: make test-faults


@pytest.mark.faults
@pytest.mark.parametrize(("count", "victim"), [(2, 0), (2, 1), (4, 0), (4, 2)])
def test_a_restart_after_a_killed_process_is_the_same_run(
    cache, reference, tmp_path, count, victim
):
    run_dir, moment = tmp_path / "run", random.Random(victim).randrange(5, WORK.total - 30)
    processes = start_all(cache, run_dir, count)
    wait_for_generations(processes[0], run_dir, moment)
    processes[victim].kill()
    processes.pop(victim).ended(-signal.SIGKILL)
    for process in processes:
        process.ended(1, -signal.SIGABRT)  # JAX may end the process before Python can
    assert not (run_dir / "report.html").exists()
    for process in start_all(cache, run_dir, count):
        process.ended(0)
    assert WORK.result(run_dir) == WORK.result(reference(count))


@pytest.mark.faults
def test_another_number_of_processes_resumes_up_to_rounding(cache, reference, tmp_path):
    """Over a short horizon: one device, then two processes, then one process on two devices."""
    run_dir, total = tmp_path / "run", 6
    WORK.run(run_dir, cache, "--generations", 2, devices=1)
    leader, follower = start_all(cache, run_dir, 2, "--generations", 4)
    assert "num_devices = 1 and goes on with 2" in leader.ended(0)
    follower.ended(0)
    WORK.run(run_dir, cache, "--generations", total)
    found, expected = records(run_dir), records(reference(2))[:total]
    for one, other in zip(found, expected, strict=True):
        for name in ("fitness_mean", "fitness_std", "sigma"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, err_msg=name)
