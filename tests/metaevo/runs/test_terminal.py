import io
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metaevo.runs.terminal import Progress, StopOnSignal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_clock_runs_in_a_stage_without_steps(monkeypatch):
    monkeypatch.setattr(Progress, "SECONDS", 0.01)
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


def test_compilation_does_not_count_for_the_time_left():
    with Progress(total=10, desc="compiling", file=io.StringIO(), mininterval=0) as bar:
        now = bar.start_t
        bar._time = lambda: now
        now += 1000
        bar.stage("evolving")
        now += 3
        bar.update(3)
        assert bar.format_dict["rate"] == pytest.approx(1)


HEAD = """
import ctypes, signal, sys, time
from metaevo.runs.terminal import StopOnSignal, StopRequestedError, leave_at_once
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job may not have
libc = ctypes.CDLL(None)
def ready():
    print("ready", flush=True)
"""
BLOCKS = """
leave_at_once()
with StopOnSignal() as stop:
    ready()
    while stop.requested is None:
        end = time.monotonic() + 1
        while time.monotonic() < end:  # a block, whatever signals come
            libc.usleep(10_000)
    print("saved", flush=True)
sys.exit(stop.exit_code)
"""
STUCK = """
leave_at_once()
with StopOnSignal("go on with this"):
    ready()
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # for ever: a C call, in which Python runs no handler
"""
LIBRARY = """
try:
    with StopOnSignal("go on with this"):
        ready()
        while True:
            time.sleep(0.01)
except KeyboardInterrupt:
    time.sleep(0.5)  # nothing else follows
    print("alive", flush=True)
"""
EARLY = """
leave_at_once()
ready()
time.sleep(60)
"""
"""Before a run begins."""
LATE = """
leave_at_once()
class Thing:
    def __del__(self, ready=ready, sleep=time.sleep):
        ready()
        sleep(2)
thing = Thing()
with StopOnSignal():
    pass
sys.exit(7)
"""
"""After everything: the interpreter clears its modules, which ends XLA's threads, too."""


@pytest.fixture
def start():
    """Start a program and wait until it is ready; none survives the test."""
    processes = []

    def run(program):
        process = subprocess.Popen(
            [sys.executable, "-c", HEAD + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


STOPPING = "stopping after this block; press Ctrl-C again to leave at once"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_stops_at_the_end_of_the_block(start, number):
    process = start(BLOCKS)
    process.send_signal(number)
    process.send_signal(number)  # at once: the same key press, passed on by a wrapper
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (128 + number, "saved\n", f"\n{STOPPING}\n")


@pytest.mark.parametrize(
    ("program", "code", "said"), [(STUCK, 130, ""), (LIBRARY, 0, "alive\n")], ids=["C", "library"]
)
def test_a_second_signal_stops_at_once(start, program, code, said):
    process = start(program)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.8)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, said)
    assert err == f"\n{STOPPING}\n\nstopped at once; go on with this\n"


@pytest.mark.parametrize(
    ("program", "number", "code"), [(EARLY, signal.SIGINT, 130), (LATE, signal.SIGTERM, 7)]
)
def test_signals_before_and_after_a_run(start, program, number, code):
    process = start(program)
    process.send_signal(number)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == code


def test_the_handlers_are_restored(capsys):
    before = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with StopOnSignal() as stop:
        assert signal.getsignal(signal.SIGINT) != before[0]
        signal.raise_signal(signal.SIGTERM)
        assert (stop.requested, stop.exit_code) == (signal.SIGTERM, 143)
    assert STOPPING in capsys.readouterr().err
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_thread_other_than_the_main_one_leaves_the_handlers_alone():
    before = signal.getsignal(signal.SIGINT)

    def work():
        with StopOnSignal() as stop:
            stop.check()
            return stop.exit_code, signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(work).result() == (0, before)
