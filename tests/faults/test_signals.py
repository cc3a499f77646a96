"""SIGINT and SIGTERM, sent to the real scripts at every stage of a run."""

import signal
from pathlib import Path

import pytest

from metaevo.commands import train as training
from metaevo.runs import run as lifecycle
from metaevo.runs.terminal import StopOnSignal
from tests.faults.works import WORKS, checkpoints_in, count_records, wait_for

pytestmark = pytest.mark.faults
FIRST_AT_THE_END = {"short": "meta_params.npz", "train": "*_curves.csv", "sweep": "best.yaml"}
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


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("number", CODES)
def test_a_signal_before_a_run_prints_no_message(number, tmp_path, cache):
    process = WORKS["train"].start(tmp_path / "run", cache)
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "jaxlib" in maps.read_text(), process)
    process.send_signal(number)
    assert process.ended(CODES[number]) == ""
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
        error = process.ended(code)
        assert "Traceback" not in error
        if (run_dir / "report.html").exists():  # nothing was left to do
            break
        assert f"stopped; continue with: --resume --run-dir {run_dir}" in error
        if name != "sweep" and count_records(run_dir):
            assert int(checkpoints_in(run_dir)[-1].stem) == count_records(run_dir)
    work.run(run_dir, cache)
    assert work.result(run_dir) == work.result(undisturbed(name))


@pytest.mark.parametrize("looks", [5, 6])
def test_a_signal_at_any_moment_saves_everything(looks, tmp_path, monkeypatch):
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
    run_dir = tmp_path / "run"
    argv = [*WORKS["train"].command(run_dir)[4:], "--run.checkpoint_seconds=1000"]
    assert training.main(argv) == 143
    assert int(checkpoints_in(run_dir)[-1].stem) == count_records(run_dir)
