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


def assert_stopped_cleanly(error, code):
    lines = error.strip().splitlines()
    assert code in (DiskError.exit_code, 2), error
    assert "Traceback" not in error, error
    assert [each for each in lines if each.startswith("error: ")] == lines[-1:], error
    reasons = "No space left", "File too large", "cannot be written", "cannot be read"
    assert any(text in lines[-1] for text in reasons)


def assert_saved_is_whole(run_dir):
    found = run_dir / "meta_params.npz"
    for path in [*checkpoints_in(run_dir), *filter(Path.exists, [found])]:
        checkpoint._read(path)  # checks the digest


def mount(*arguments):
    try:
        subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not allowed here")


def unmount(path):
    for _ in range(50):  # a thread may still look at it
        if subprocess.run(["umount", str(path)], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} is still in use")


# Each fault starts a run and disturbs it; it returns the process, and what repairs the disk.


def full_disk(free):
    def disturb(work, run_dir, cache):
        run_dir.mkdir()
        mount("-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", run_dir)
        status, ballast = os.statvfs(run_dir), run_dir / "ballast"
        ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - free))
        return work.start(run_dir, cache), ballast.unlink

    return disturb


def file_size_limit(work, run_dir, cache):
    """For machines on which nothing can be mounted."""
    process = work.start(run_dir, cache)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (7_000, 7_000))
    return process, lambda: None


def in_the_middle(change):
    def disturb(work, run_dir, cache):
        process = work.start(run_dir, cache)
        wait_for(lambda: count_records(run_dir) >= 15, process)
        process.send_signal(signal.SIGSTOP)  # so that it does not end in the meantime
        repair = change(run_dir)
        process.send_signal(signal.SIGCONT)
        return process, repair

    return disturb


def replace_checkpoints(run_dir):
    folder, kept = run_dir / "checkpoints", run_dir.with_name("checkpoints")
    folder.rename(kept)
    folder.write_text("in the way")
    return lambda: (folder.unlink(), kept.rename(folder))


def move_away(run_dir):
    kept = run_dir.with_name("kept")
    run_dir.rename(kept)
    return lambda: (shutil.rmtree(run_dir, ignore_errors=True), kept.rename(run_dir))


def forbid_writing(run_dir):
    """Lay a read-only view of the directory over it; chmod does not stop root."""
    mount("--bind", run_dir, run_dir)
    mount("-o", "remount,ro,bind", run_dir)
    return lambda: unmount(run_dir)


FAULTS = {
    "full": full_disk(16_000),
    "full later": full_disk(200_000),
    "file size limit": file_size_limit,
    "moved away": in_the_middle(move_away),
    "read only": in_the_middle(forbid_writing),
    "in the way": in_the_middle(replace_checkpoints),
}
CASES = [(name, fault) for name in ("short", "train", "sweep") for fault in FAULTS]
CASES.remove(("sweep", "in the way"))  # this sweep keeps no checkpoints


@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_run_stops_and_resumes(name, fault, tmp_path, cache, undisturbed):
    work, run_dir = WORKS[name], tmp_path / "run"
    expected = work.result(undisturbed(name))
    try:
        process, repair = FAULTS[fault](work, run_dir, cache)
        error = process.ended()
        print(f"{name}, {fault}: {process.returncode}, {error.splitlines()[-1]}")
        repair()
        assert_stopped_cleanly(error, process.returncode)
        assert_saved_is_whole(run_dir)
        work.run(run_dir, cache)
        assert work.result(run_dir) == expected
    finally:
        if os.path.ismount(run_dir):
            unmount(run_dir)
