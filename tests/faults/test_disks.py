"""Disks that fill up and directories that disappear during a run."""

import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from metaevo.config import DiskError
from metaevo.runs import checkpoint
from tests.faults.works import WORKS, checkpoints_in, count_records, wait_for

pytestmark = pytest.mark.faults
TMPFS = 8 * 2**20
NAMES = ("short", "train", "sweep")


def assert_stopped_cleanly(error, code):
    """One line says why, and no checkpoint is half there."""
    lines = error.strip().splitlines()
    assert code in (DiskError.exit_code, 2), error
    assert "Traceback" not in error, error
    assert [each for each in lines if each.startswith("error: ")] == lines[-1:], error
    assert any(
        text in lines[-1]
        for text in ("No space left", "File too large", "cannot be written", "cannot be read")
    )


def assert_saved_is_whole(run_dir):
    trees = [run_dir / name for name in ("meta_params.npz", "training.npz")]
    for path in [*checkpoints_in(run_dir), *filter(Path.exists, trees)]:
        checkpoint._read(path)  # checks the digest


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)


def unmount(path):
    for _ in range(50):  # a thread may still look at it
        if subprocess.run(["umount", str(path)], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} is still in use")


@pytest.fixture
def small_disk(tmp_path):
    """A run directory on a file system of its own."""
    path = tmp_path / "run"
    path.mkdir()
    try:
        mount("-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not allowed here")
    yield path
    unmount(path)


def fill(path, free):
    """Leave so many bytes on the file system."""
    status = os.statvfs(path)
    (path / "ballast").write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - free)))


@pytest.mark.parametrize("free", [16_000, 200_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_resumes_after_a_full_disk(name, free, small_disk, cache, undisturbed):
    work, expected = WORKS[name], WORKS[name].result(undisturbed(name))
    fill(small_disk, free)
    process = work.start(small_disk, cache)
    error = process.ended()
    print(f"{name}, {free} bytes free: {process.returncode}, {error.splitlines()[-1]}")
    assert_stopped_cleanly(error, process.returncode)
    assert_saved_is_whole(small_disk)
    (small_disk / "ballast").unlink()
    work.run(small_disk, cache)
    assert work.result(small_disk) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_run_resumes_after_a_file_size_limit(name, tmp_path, cache, undisturbed):
    """For machines on which nothing can be mounted."""
    work, run_dir, size = WORKS[name], tmp_path / "run", 7_000
    expected = work.result(undisturbed(name))
    process = work.start(run_dir, cache)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    error = process.ended()
    print(f"{name}, files up to {size} bytes: {process.returncode}, {error.splitlines()[-1]}")
    assert_stopped_cleanly(error, process.returncode)
    assert_saved_is_whole(run_dir)
    work.run(run_dir, cache)
    assert work.result(run_dir) == expected


def replace_checkpoints(run_dir):
    kept = run_dir.with_name("checkpoints")
    (run_dir / "checkpoints").rename(kept)
    (run_dir / "checkpoints").write_text("in the way")
    return lambda: ((run_dir / "checkpoints").unlink(), kept.rename(run_dir / "checkpoints"))


def move_away(run_dir):
    kept = run_dir.with_name("kept")
    run_dir.rename(kept)
    return lambda: (shutil.rmtree(run_dir, ignore_errors=True), kept.rename(run_dir))


def forbid_writing(run_dir):
    """Lay a read-only view of the directory over it; chmod does not stop root."""
    try:
        mount("--bind", run_dir, run_dir)
        mount("-o", "remount,ro,bind", run_dir)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not allowed here")
    return lambda: unmount(run_dir)


CHANGES = {"moved away": move_away, "read only": forbid_writing, "in the way": replace_checkpoints}


CASES = [(name, change) for name in NAMES for change in CHANGES]
CASES.remove(("sweep", "in the way"))  # this sweep keeps no checkpoints


@pytest.mark.parametrize(("name", "change"), CASES)
def test_a_missing_directory_stops_a_run(name, change, tmp_path, cache, undisturbed):
    work, run_dir = WORKS[name], tmp_path / "run"
    expected = work.result(undisturbed(name))
    process = work.start(run_dir, cache)
    wait_for(lambda: count_records(run_dir) >= 15, process)
    process.send_signal(signal.SIGSTOP)  # so that it does not end in the meantime
    restore = CHANGES[change](run_dir)
    process.send_signal(signal.SIGCONT)
    error = process.ended()
    print(f"{name}, {change}: {process.returncode}, {error.splitlines()[-1]}")
    restore()
    assert_stopped_cleanly(error, process.returncode)
    assert_saved_is_whole(Path(run_dir))
    work.run(run_dir, cache)
    assert work.result(run_dir) == expected
