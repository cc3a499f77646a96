"""SIGINT and SIGTERM, sent to the real scripts at every stage of a run."""

import signal
from pathlib import Path

import pytest

from metaevo.commands import evolve as evolve_script
from metaevo.commands import train as training
from metaevo.runs import run as lifecycle
from metaevo.runs.terminal import StopOnSignal
from tests.faults.works import WORKS, checkpoints_in, count_records, wait_for

pytestmark = pytest.mark.faults
FIRST_AT_THE_END = {"short": "meta_params.npz", "train": "training.npz", "sweep": "best.yaml"}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def started_at(run_dir):
    """When the last process has written config.yaml, after which it compiles."""
    path = run_dir / "config.yaml"
    return path.stat().st_mtime_ns if path.exists() else 0


def is_saving(run_dir, name):
    if name == "sweep":  # whose trials go into a journal
        return (run_dir / "study.journal").exists() and count_records(run_dir) >= 3
    return count_records(run_dir) and any((run_dir / "checkpoints").glob(".*.tmp"))


@pytest.fixture(autouse=True)
def sigint_handler():
    """A background job of a script inherits that SIGINT is ignored; begin where a shell does."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


def listens(process):
    """Whether SIGTERM has a handler: the first thing that a script does."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


def has_jax(process):
    return "jaxlib" in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("moment", [listens, has_jax])
def test_a_signal_before_a_run_prints_no_message(moment, number, tmp_path, cache):
    """Only while the interpreter itself starts nobody listens."""
    process = WORKS["train"].start(tmp_path / "run", cache)
    wait_for(lambda: moment(process), process)
    process.send_signal(number)
    error = process.ended()
    assert (process.returncode, error) == (CODES[number], "")
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.parametrize("moment", ["compiling", "working", "saving", "finishing"])
@pytest.mark.parametrize("name", ["short", "train", "sweep"])
def test_a_signal_saves_and_stops(name, moment, tmp_path, cache, undisturbed):
    work, run_dir = WORKS[name], tmp_path / "run"
    for number, code in CODES.items():  # the second one goes on with what the first one left
        before, started = count_records(run_dir), started_at(run_dir)
        process = work.start(run_dir, cache)
        wait_for(lambda: started_at(run_dir) != started, process)  # noqa: B023
        if moment == "working":
            wait_for(lambda: count_records(run_dir) >= before + 8, process)  # noqa: B023
        elif moment == "saving":
            wait_for(lambda: is_saving(run_dir, name), process)
        elif moment == "finishing":
            wait_for(lambda: any(run_dir.glob(FIRST_AT_THE_END[name])), process)
        process.send_signal(number)
        error = process.ended()
        assert process.returncode == code, error
        assert "Traceback" not in error
        if (run_dir / "report.html").exists():  # nothing was left to do
            break
        assert f"stopped; continue with: --resume --run-dir {run_dir}" in error
        if name != "sweep" and count_records(run_dir):
            assert int(checkpoints_in(run_dir)[-1].stem) == count_records(run_dir)
    work.run(run_dir, cache)
    assert work.result(run_dir) == work.result(undisturbed(name))


@pytest.mark.parametrize(
    ("name", "looks"), [("short", 1), ("short", 2), ("train", 5), ("train", 6)]
)
def test_a_signal_at_any_moment_saves_everything(name, looks, tmp_path, monkeypatch):
    """The signal arrives between two looks of the loop, wherever these are."""

    class Stop(StopOnSignal):
        count = 0

        @property
        def requested(self):
            Stop.count += 1
            return signal.SIGTERM if Stop.count > looks else None

        @requested.setter
        def requested(self, number):
            pass

    monkeypatch.setattr(lifecycle, "StopOnSignal", Stop)
    work, run_dir = WORKS[name], tmp_path / "run"
    seldom = {"short": "--evolution.block_size=50", "train": "--run.checkpoint_seconds=1000"}
    argv = [*work.command(run_dir)[4:], seldom[name]]
    if name == "short":
        code = evolve_script.main(argv, component="value_loss")
    else:
        code = training.main(argv)
    assert code == 143
    assert int(checkpoints_in(run_dir)[-1].stem) == count_records(run_dir)
