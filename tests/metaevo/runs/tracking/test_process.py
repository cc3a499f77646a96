"""Mirrors as processes: blocked, killed, orphaned. The run goes on, and sync completes them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from metaevo.runs.tracking import RunTracker
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.state import load_state
from tests.metaevo.runs.tracking.fake_wandb import silence
from tests.metaevo.runs.tracking.runs import (
    ROOT,
    environment,
    finish_run,
    log_generations,
    make_run,
    read_mlflow,
    read_wandb,
    rows_of,
    sync,
)

pytestmark = pytest.mark.long


@pytest.fixture
def clean(monkeypatch, tmp_path):
    """Nothing of the user's that wandb reads."""
    for name in [name for name in os.environ if name.startswith("WANDB")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid):
    """Whether a process exists that is not merely waiting to be collected."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_mirror_imports_no_jax():
    program = (
        "import sys, metaevo.runs.tracking.mirror as m; "
        "from metaevo.runs.tracking.destination import Destination as D; "
        "m.make_service(D('wandb', 'offline', 'p')); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment())


def test_a_server_that_never_answers_is_waited_for_as_long_as_asked(tmp_path, clean, capfd):
    run = make_run(tmp_path / "run")
    with silence() as url:
        clean.setenv("WANDB_BASE_URL", url)
        clean.setenv("WANDB_API_KEY", "0" * 40)
        to = Destination("wandb", "online", "p")
        tracker = RunTracker(run, [to], job_type="train", wait=1.5)
        (mirror,) = tracker._mirrors
        finish_run(run)
        tracker.finish()
        tracker.finish()  # of nothing
    assert not is_alive(mirror.pid)
    waiting, missing = capfd.readouterr().err.splitlines()
    lacks = "5 records, 2 nested runs and 2 artifacts"
    assert waiting.startswith("waiting up to 2 s")
    assert waiting.endswith(f"until wandb (online) has {lacks}")
    assert missing == (
        f"warning: wandb (online) is not known to have {lacks}; send the rest later: "
        f"metaevo sync {run.path}"
    )


class LateMirror:
    """A mirror that has everything just before the end of the wait."""

    destination = Destination("wandb", "offline", "p")
    joined = 0

    def ask_to_finish(self):
        """Nothing: it is on its way."""

    def join(self, *, until):
        self.joined += 1
        return self.joined > 1

    def end(self):
        """Nothing."""


def test_a_wait_that_was_announced_ends_with_done(tmp_path, monkeypatch, capfd):
    tracker = RunTracker(make_run(tmp_path / "run"), [], job_type="train")
    mirror = LateMirror()
    tracker._mirrors = [mirror]
    monkeypatch.setattr(tracker, "_missing", lambda _: None if mirror.joined > 1 else "5 records")
    tracker.finish()
    assert capfd.readouterr().err.splitlines() == [
        "waiting up to 60 s (run.track_wait) until wandb (offline) has 5 records",
        "done: wandb (offline) has everything",
    ]


def test_mirrors_killed_in_mid_run_are_completed_by_sync(tmp_path, clean, capfd):
    run, uri = make_run(tmp_path / "run", 1), f"sqlite:///{tmp_path}/store.db"
    to = [Destination("wandb", "offline", "p"), Destination("mlflow", uri, "p")]
    tracker = RunTracker(run, to, job_type="train")
    pids = [mirror.pid for mirror in tracker._mirrors]
    # The terminal's Ctrl-C goes to the session of this process, and one sent to theirs is ignored.
    assert all(os.getsid(pid) == pid for pid in pids)
    for each in to:
        wait_until(lambda each=each: load_state(run.path, each.key).remote)
    for pid in pids:
        os.kill(pid, signal.SIGINT)
    log_generations(run, [1])
    wait_until(lambda: load_state(run.path, to[1].key).rows == 2)  # only MLflow's is sure
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    log_generations(run, [2])
    finish_run(run)
    tracker.finish()
    said = capfd.readouterr().err
    assert said.count("the mirror has ended (SIGKILL), the run goes on") == 2
    assert "wandb (offline) is not known to have 5 records, 2 nested" in said
    assert f"{to[1].label} is not known to have 3 records, 2 nested" in said
    sync(run.path, "--wandb", "offline", "--mlflow", uri)
    first, *children = read_wandb(run)
    assert [row.get("generation/index") for row in rows_of(first)] == [0, 1, 2, None, None]
    assert len(children) == 2
    runs = read_mlflow(uri)
    assert len(runs) == 3
    assert runs["run"]["metrics"]["generation/fitness_mean"] == [[0, 0.0], [1, 1.5], [2, 3.0]]
    assert runs["run"]["status"] == "FINISHED"


ORPHAN = """
import sys, time
from pathlib import Path
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking import RunTracker
from metaevo.runs.tracking.destination import Destination
to = [Destination("wandb", "offline", "p")]
tracker = RunTracker(RunDirectory.open(Path(sys.argv[1])), to, job_type="train")
print(tracker._mirrors[0].pid, flush=True)
time.sleep(600)
"""


def test_the_mirror_of_a_killed_run_sends_what_is_there_and_ends(tmp_path, clean):
    run = make_run(tmp_path / "run")
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(run.path)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    pid = int(process.stdout.readline())
    wait_until(lambda: load_state(run.path, "wandb:offline#p").remote)
    process.kill()
    process.communicate()
    wait_until(lambda: not is_alive(pid))
    state = load_state(run.path, "wandb:offline#p")
    assert (state.rows, state.status) == (3, "stopped")
    assert len(rows_of(read_wandb(run)[0])) == 3


@pytest.mark.parametrize("service", ["wandb", "mlflow"])
def test_a_missing_package_costs_the_mirror_only(tmp_path, clean, capfd, service):
    (tmp_path / f"{service}.py").write_text("raise ImportError('no such package')")
    clean.setenv("PYTHONPATH", str(tmp_path))
    run = make_run(tmp_path / "run")
    where = {"wandb": "offline", "mlflow": f"sqlite:///{tmp_path}/store.db"}[service]
    tracker = RunTracker(run, [Destination(service, where, "p")], job_type="train", wait=30)
    tracker._mirrors[0].join(until=time.monotonic() + 30)
    tracker.finish()
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"warning: {service} (")
    assert "package is missing" in first
    assert first.endswith("mirroring is off")
    assert "3 records" in second


def test_a_second_mirror_of_the_same_run_is_refused(tmp_path, clean, capfd):
    run = make_run(tmp_path / "run")
    to = [Destination("wandb", "offline", "p")]
    first = RunTracker(run, to, job_type="train")
    wait_until(lambda: load_state(run.path, to[0].key).remote)
    assert "another process mirrors this run" in sync(run.path, "--wandb", "offline", code=1)
    first.finish()
    assert "warning" not in capfd.readouterr().err
    assert len(read_wandb(run)) == 1


def test_what_cannot_be_stored_is_said_at_once(tmp_path, capfd):
    run = make_run(tmp_path / "run")
    tracker = RunTracker(run, [], job_type="train")
    tracker.log_artifact(tmp_path / "none.png")
    assert "none.png cannot be stored" in capfd.readouterr().err
    child = tracker.child("a", "trial", {})
    child.child("b", "seed", {}).finish()
    child.finish()
    child.finish()
    lines = run.tracked_path.read_text().splitlines()
    assert [line.partition('"child": ')[2].partition(",")[0] for line in lines[1:]] == [
        '"a/b"', '"a"'
    ]  # fmt: skip
