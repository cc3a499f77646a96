"""examples/cluster/evolve.sbatch on a real SLURM with two nodes: make test-slurm."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.faults.works import AGENT, UNEVEN, WORKS, count_records
from tests.processes import ROOT

pytestmark = pytest.mark.slurm

SERVER = Path(__file__).with_name("server.sh")
SCRIPT = ROOT / "examples" / "cluster" / "evolve.sbatch"


@pytest.fixture(scope="module")
def cluster():
    directory = Path(tempfile.mkdtemp(prefix="metaevo-slurm-"))
    try:
        started = subprocess.run(
            [SERVER, "start", directory], capture_output=True, text=True, check=False
        )
        assert started.returncode == 0, started.stderr
        (directory / "settings.yaml").write_text(AGENT + UNEVEN)
        yield directory
    finally:
        subprocess.run([SERVER, "stop", directory], check=True, timeout=60)
        shutil.rmtree(directory, ignore_errors=True)


class Job:
    def __init__(self, cluster, run_dir, *flags, script=SCRIPT, arguments=(), path=None):
        self._env = {
            **os.environ,
            "SLURM_CONF": str(cluster / "slurm.conf"),
            "PATH": f"{path or Path(sys.executable).parent}:{os.environ['PATH']}",
            "RUN": str(run_dir),
            "CONFIG": str(cluster / "settings.yaml"),
            "XLA_FLAGS": "--xla_force_host_platform_device_count=1",
            "JAX_COMPILATION_CACHE_DIR": str(cluster / "cache"),
        }
        self.log = run_dir.with_suffix(".log")
        self.id = self._call(
            "sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=0",
            "--cpus-per-task=1", f"--output={self.log}", *flags, script, *arguments,
        ).strip()  # fmt: skip

    def _call(self, *command):
        words = [str(each) for each in command]
        return subprocess.run(
            words, env=self._env, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    @property
    def output(self):
        return self.log.read_text() if self.log.exists() else ""

    def shown(self):
        return dict(re.findall(r"(\w+)=(\S*)", self._call("scontrol", "show", "job", self.id)))

    def send(self, name):
        self._call("scancel", f"--signal={name}", self.id)

    def cancel(self):
        self._call("scancel", self.id)

    def wait(self, *states):
        """Return the fields of `scontrol show job` once the job is in one of these states."""
        deadline = time.monotonic() + 400
        while (found := self.shown())["JobState"] not in states:
            assert time.monotonic() < deadline, (found, self.output)
            if found["JobState"] == "PENDING" and found["Restarts"] != "0":
                # SLURM would wait for two minutes before it starts a requeued job.
                self._call("scontrol", "update", f"JobId={self.id}", "StartTime=now")
            time.sleep(0.5)
        return found

    def wait_for_generations(self, run_dir, count):
        deadline = time.monotonic() + 240
        while count_records(run_dir) < count:
            assert time.monotonic() < deadline, self.output
            time.sleep(0.002)


ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@pytest.fixture(scope="module")
def undisturbed(cluster):
    """The directory of a run that was never stopped, its job, and a job that depends on it."""
    run_dir = cluster / "undisturbed"
    job = Job(cluster, run_dir)
    after = cluster / "after.sh"
    after.write_text("#!/bin/sh\necho started\n")
    dependent = Job(cluster, cluster / "after", f"--dependency=afterok:{job.id}", script=after)
    return run_dir, job, dependent


def test_a_finished_job_succeeds_and_starts_its_dependents(undisturbed):
    run_dir, job, dependent = undisturbed
    found = job.wait(*ENDED)
    assert (found["JobState"], found["ExitCode"]) == ("COMPLETED", "0:0"), job.output
    assert count_records(run_dir) == WORKS["uneven"].total
    assert dependent.wait(*ENDED)["JobState"] == "COMPLETED"
    assert "started" in dependent.output


def test_tasks_of_a_step_are_one_run_without_a_flag(undisturbed):
    """JAX finds the coordinator, the number of processes and its own from SLURM's variables."""
    _, job, _ = undisturbed
    job.wait(*ENDED)
    assert "on 2 devices of 2 processes" in job.output
    assert job.output.count("run directory:") == 1


def test_a_stopped_job_is_requeued_and_resumes_bit_for_bit(cluster, undisturbed):
    run_dir = cluster / "stopped"
    job = Job(cluster, run_dir)
    job.wait_for_generations(run_dir, 10)
    job.send("TERM")
    found = job.wait(*ENDED)
    assert (found["JobState"], found["Restarts"]) == ("COMPLETED", "1"), job.output
    undisturbed[1].wait(*ENDED)
    assert WORKS["uneven"].result(run_dir) == WORKS["uneven"].result(undisturbed[0])


def test_a_cancelled_job_is_not_requeued(cluster):
    run_dir = cluster / "cancelled"
    job = Job(cluster, run_dir, arguments=["--generations", 1_000_000])
    job.wait_for_generations(run_dir, 10)
    job.cancel()
    time.sleep(10)
    found = job.shown()
    assert (found["JobState"], found["Restarts"]) == ("CANCELLED", "0"), job.output


def test_a_job_that_adds_no_checkpoint_is_not_requeued(cluster, tmp_path):
    """With a limit shorter than compilation, every allocation ends at the same checkpoint."""
    program = tmp_path / "metaevo"
    saving = 'mkdir -p "$RUN/checkpoints"; touch "$RUN/checkpoints/000000.npz"'
    program.write_text(f"#!/bin/sh\n{saving}\nexit 143\n")
    program.chmod(0o755)
    job = Job(cluster, tmp_path / "stuck", path=tmp_path)
    found = job.wait(*ENDED)
    # The first allocation adds the checkpoint of generation 0, the second adds none.
    assert (found["JobState"], found["Restarts"]) == ("FAILED", "1"), job.output
    assert found["ExitCode"] == "143:0"
    assert "raise --time" in job.output
