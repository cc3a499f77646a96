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


@pytest.fixture(autouse=True)
def short_interval(monkeypatch):
    monkeypatch.setattr(Progress, "SECONDS", 0.01)


def test_the_clock_runs_in_a_stage_without_steps():
    terminal = Terminal()
    with Progress(total=3, desc="compiling", file=terminal) as bar:
        before = terminal.getvalue().count("compiling")
        while terminal.getvalue().count("compiling") < before + 3:  # without a step
            time.sleep(0.01)
        bar.stage("tuning huber, 3 of 4")
        bar.update(3)
    assert "progress" not in [each.name for each in threading.enumerate()]
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


@pytest.mark.parametrize("stages", [["comparing"], ["compiling", "evolving"]])
def test_compilation_does_not_count_for_the_time_left(stages):
    with Progress(total=10, desc=stages[0], file=io.StringIO(), mininterval=0) as bar:
        now = bar.start_t
        bar._time = lambda: now
        for text in stages[1:]:
            now += 1000
            bar.stage(text)
        if len(stages) == 1:
            now += 1000
            bar.update(2)
            assert "?" in str(bar)
        now += 3
        bar.update(3)
        assert bar.format_dict["rate"] == pytest.approx(1)
        bar.update(10 - bar.n)
