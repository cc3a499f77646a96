"""Signals, sent to real processes."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metaevo.runs.signals import StopOnSignal

HEAD = """
import ctypes, signal, sys, time
from metaevo.runs.signals import StopOnSignal, StopRequestedError, leave_at_once
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job may not have
libc = ctypes.CDLL(None)
def ready():
    print("ready", flush=True)
"""
BLOCKS = """
leave_at_once()
def block(first):
    end = time.monotonic() + float(sys.argv[1])
    if first:  # said inside, so that no signal comes between this and the block
        ready()
    while time.monotonic() < end:
        libc.usleep(10_000)
with StopOnSignal() as stop:
    first = True
    while stop.requested is None:
        block(first)
        first = False
    print("saved", flush=True)
sys.exit(stop.exit_code)
"""
"""A loop over blocks that last for the given number of seconds, whatever signals come."""
STUCK = """
leave_at_once()
with StopOnSignal("go on with this"):
    ready()
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # for ever, whatever signals come
"""
"""One long C call, in which Python runs no handler."""
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
"""A library call that receives a second signal."""
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

    def run(program, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", HEAD + program, *arguments],
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


NUMBERS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@NUMBERS
def test_one_signal_stops_at_the_end_of_the_block(start, number):
    process = start(BLOCKS, "3")
    process.send_signal(number)
    process.send_signal(number)  # at once: the same key press, passed on by a wrapper
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (128 + number, "saved\n")
    assert err == "\nstopping after this block; press Ctrl-C again to leave at once\n"


@pytest.mark.parametrize("program", [BLOCKS, STUCK], ids=["block", "inside C"])
def test_a_second_signal_ends_the_process_at_once(start, program):
    process = start(program, "60")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.8)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err.count("stopping after this block") == 1


@NUMBERS
@pytest.mark.parametrize(("program", "code"), [(EARLY, None), (LATE, 7)])
def test_signals_before_and_after_a_run(start, number, program, code):
    process = start(program)
    process.send_signal(number)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == (code or 128 + number)


@NUMBERS
def test_a_library_call_raises_keyboard_interrupt(start, number):
    process = start(LIBRARY)
    process.send_signal(number)
    time.sleep(0.8)
    process.send_signal(number)
    output, error = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "alive\n")
    assert error.count("go on with this") == 1


def test_the_handlers_are_restored(capsys):
    before = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with StopOnSignal() as stop:
        assert signal.getsignal(signal.SIGINT) != before[0]
        signal.raise_signal(signal.SIGTERM)
        assert (stop.requested, stop.exit_code) == (signal.SIGTERM, 143)
    assert "stopping after this block" in capsys.readouterr().err
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
    assert signal.getsignal(signal.SIGINT) == before
