"""A long run of a script, its memory and its open files watched from outside.

python tests/faults/soak.py SECONDS evolve|train

prints one JSON object: what `watch` returns.

python tests/faults/soak.py inside SCRIPT ARGUMENTS...

runs a script and prints, after every tenth checkpoint, what its process holds: see `inside`.
"""

import ctypes
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parent.parent.parent
WARM_UP = 0.25
"""Share of the time in which caches may fill."""
COMMANDS = {
    # the quick preset and a training, made small so that their loops turn often, and endless
    "evolve": (
        "evolve_value_loss",
        "--generations 10000000 --strategy.population_size 16 --train.total_timesteps 512 "
        "--evolution.validation_every 50 --evolution.block_seconds 0.5",
    ),
    "train": (
        "train",
        "--seeds 4 --train.total_timesteps 200000000 --run.log_every 20 --run.block_seconds 0.2 "
        "--run.checkpoint_seconds 1",
    ),
}
PROMPT = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""glibc gives memory back at once; it may keep 400 MiB otherwise, in which a leak would hide."""


def start(name: str, run_dir: Path) -> subprocess.Popen[bytes]:
    """Start a script in a process of its own."""
    script, settings = COMMANDS[name]
    return subprocess.Popen(
        [sys.executable, f"experiments/{script}.py", *settings.split(), "--run-dir", str(run_dir)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", **PROMPT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def watch(name: str, seconds: float, records: int = 0) -> dict[str, Any]:
    """Run a script, once it makes checkpoints, for some seconds; end it with SIGTERM.

    It runs for longer if it has not written so many `records` by then.

    Returns:
        `mib_per_hour` and its 95% `interval` (a straight line through the resident memory after the
        warm-up), `mib` and `files` at the warm-up's end and at the end, `records` written in
        between, the number of `samples` and the exit `code`.
    """
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        process = start(name, run_dir)
        try:
            while not len(list((run_dir / "checkpoints").glob("*"))) > 1:
                assert process.poll() is None, f"the run has ended with code {process.returncode}"
                time.sleep(0.2)
            begun = time.monotonic()
            time.sleep(WARM_UP * seconds)
            before, samples = _records(run_dir), []
            while time.monotonic() - begun < seconds or _records(run_dir) - before < records:
                samples.append((time.monotonic() - begun, *_look(process.pid)))
                time.sleep(max(0.2, seconds / 2000))
            written = _records(run_dir) - before
            process.send_signal(signal.SIGTERM)
            code = process.wait(120)
        finally:
            process.kill()
            process.wait()
    times, mib, files = np.array(samples).T
    fit = stats.linregress(times / 3600, mib)
    width = stats.t.ppf(0.975, len(times) - 2) * fit.stderr
    few = max(1, len(samples) // 20)
    return {
        "script": name,
        "seconds": round(times[-1]),
        "mib_per_hour": round(float(fit.slope), 2),
        "interval": [round(float(fit.slope + each), 2) for each in (-width, width)],
        "mib": [round(float(np.mean(each)), 2) for each in (mib[:few], mib[-few:])],
        # the fewest: a record or a checkpoint that is just being written is no leak
        "files": [int(np.min(each)) for each in (files[:few], files[-few:])],
        "records": written,
        "samples": len(samples),
        "code": code,
    }


def _look(pid: int) -> tuple[float, int]:
    """Return the resident memory of a process in MiB, and how many files it has open."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files


def _records(run_dir: Path) -> int:
    path = run_dir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`, in bytes."""

    _fields_ = [
        *((f"other_{i}", ctypes.c_size_t) for i in range(7)),
        ("used", ctypes.c_size_t),
        ("free", ctypes.c_size_t),
        ("top", ctypes.c_size_t),
    ]


def inside(script: str) -> None:
    """Run a script; print the memory that is resident, and what of the heap is used and free [KiB].

    Free memory of the heap is memory that the allocator has and nobody holds.
    """
    import gc
    import runpy

    from metaevo.runs import checkpoint

    heap = ctypes.CDLL(None).mallinfo2
    heap.restype = Heap
    save, saved = checkpoint.save, itertools.count(1)

    def counting(directory: Path, index: int, *arguments, **others):
        path = save(directory, index, *arguments, **others)
        if next(saved) % 10 == 0:
            gc.collect()
            resident, found = round(_look(os.getpid())[0] * 1024), heap()
            row = {"index": index, "resident": resident, "blocks": sys.getallocatedblocks()}
            row |= {name: getattr(found, name) // 1024 for name in ("used", "free")}
            print(json.dumps(row), flush=True)
        return path

    checkpoint.save = counting
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        sys.argv = sys.argv[2:]
        inside(sys.argv[0])
    else:
        print(json.dumps(watch(sys.argv[2], float(sys.argv[1]))))
