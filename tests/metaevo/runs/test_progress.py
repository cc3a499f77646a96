"""Progress bars: the clock runs between steps."""

import io
import threading
import time

import pytest

from metaevo.runs.progress import Progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def threads():
    return [each for each in threading.enumerate() if each.name == "progress"]


@pytest.fixture(autouse=True)
def short_interval(monkeypatch):
    monkeypatch.setattr(Progress, "SECONDS", 0.01)


def test_the_clock_runs_in_a_stage_without_steps():
    terminal = Terminal()
    with Progress(total=3, desc="compiling", file=terminal) as bar:
        before = terminal.getvalue().count("compiling")
        deadline = time.monotonic() + 30
        while terminal.getvalue().count("compiling") < before + 3:  # without a step
            assert time.monotonic() < deadline
            time.sleep(0.01)
        bar.stage("tuning huber, 3 of 4")
        bar.update(3)
        assert len(threads()) == 1
    assert threads() == []
    last = terminal.getvalue().rpartition("\r")[2]
    assert last.startswith("tuning huber, 3 of 4: 100%")
    assert "3/3" in last


def test_a_file_gets_each_percent_once():
    file = io.StringIO()
    with Progress(total=1000, desc="training", file=file, mininterval=0) as bar:
        for step in range(1000):
            bar.set_postfix_str(f"step {step}")
            bar.update()
            bar.refresh()
    shown = [line.partition("|")[0] for line in file.getvalue().split("\r") if line.strip()]
    assert shown == [f"training: {percent}%" for percent in range(101)]
