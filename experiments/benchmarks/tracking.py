"""What trackers cost a training: whole runs of experiments/train.py, with each tracker in turns.

Three times are taken of a run: that of its training loop, from the first point of the learning
curve to the last (what a mirror slows by using a core), that of the whole command, in which the
wait at the end is contained, and the processor time of the command with all its processes, which
depends least on what else the machine does.
"""

import argparse
import contextlib
import os
import resource
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import Table, interval
from experiments.benchmarks.processes import spread
from metaevo.runs.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parent.parent.parent
AGENTS, AGENT_STEPS = 512, 100_000
WAIT = 10
"""seconds that a run waits at its end, at most"""


@contextlib.contextmanager
def nothing(place: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """No tracker."""
    yield [], {}


@contextlib.contextmanager
def wandb_offline(place: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Wandb writes files."""
    yield ["--wandb", "offline"], {}


@contextlib.contextmanager
def mlflow(place: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A database that exists from the second repetition on."""
    yield ["--mlflow", f"sqlite:///{place}/store.db"], {}


@contextlib.contextmanager
def both(place: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Two mirrors at once."""
    yield ["--wandb", "offline", "--mlflow", f"sqlite:///{place}/both.db"], {}


@contextlib.contextmanager
def wandb_silent(place: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        environment = {"WANDB_BASE_URL": address, "WANDB_API_KEY": "0" * 40}
        yield ["--wandb", "online"], environment


@contextlib.contextmanager
def mlflow_locked(place: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A database that somebody else writes to all the time."""
    with contextlib.closing(sqlite3.connect(place / "locked.db")) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield ["--mlflow", f"sqlite:///{place}/locked.db"], {}


VARIANTS = {
    "none": nothing,
    "wandb offline": wandb_offline,
    "MLflow sqlite": mlflow,
    "both": both,
    "wandb online, silent server": wandb_silent,
    "MLflow, locked database": mlflow_locked,
}


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Training of Q-learning with and without trackers, also with some that never answer."""
    loops: dict[str, list[float]] = {name: [] for name in VARIANTS}
    walls: dict[str, list[float]] = {name: [] for name in VARIANTS}
    cpus: dict[str, list[float]] = {name: [] for name in VARIANTS}
    steps = options.agent_steps or AGENT_STEPS
    with tempfile.TemporaryDirectory() as place:
        for repeat in range(options.repeats):
            for name, variant in VARIANTS.items():
                with variant(Path(place)) as (flags, environment):
                    run = Path(place) / f"{name}-{repeat}"
                    loop, wall, cpu = _train(run, steps, flags, environment)
                loops[name].append(loop)
                walls[name].append(wall)
                cpus[name].append(cpu)
                times = f"loop {loop:.2f} s, command {wall:.1f} s, CPU {cpu:.1f} s"
                print(f"... {name}, {repeat + 1} of {options.repeats}: {times}", file=sys.stderr)
    rows = []
    table = Table(
        "tracker", "loop, s", "ratio to none: median [min, max]", "command, s", "more, s",
        "CPU, s", "more, s",
    )  # fmt: skip
    for name in VARIANTS:
        # Neighbours in time are compared: what disturbs one is likely to disturb both.
        ratios = [a / b for a, b in zip(loops[name], loops["none"], strict=True)]
        more = [a - b for a, b in zip(walls[name], walls["none"], strict=True)]
        more_cpu = [a - b for a, b in zip(cpus[name], cpus["none"], strict=True)]
        row: dict[str, Any] = {
            "variant": name,
            "loop": statistics.median(loops[name]),
            **spread(ratios),
            "command": statistics.median(walls[name]),
            "more": statistics.median(more),
            "cpu": statistics.median(cpus[name]),
            "more_cpu": statistics.median(more_cpu),
        }
        rows.append(row)
        table.row(
            name, f"{row['loop']:.2f}", interval(row), f"{row['command']:.1f}",
            f"{row['more']:+.1f}", f"{row['cpu']:.1f}", f"{row['more_cpu']:+.1f}",
        )  # fmt: skip
    work = f"Q-learning, GridWorld 8 x 8, {AGENTS} agents x {steps:,} steps, waits {WAIT} s at most"
    return {"rows": rows, "work": work}


def _train(
    run: Path, steps: int, flags: list[str], environment: dict[str, str]
) -> tuple[float, float, float]:
    """Train; return the seconds of the training loop, of the whole command, and of processors."""
    command = [
        sys.executable, str(ROOT / "experiments" / "train.py"),
        "--config", str(ROOT / "configs" / "train" / "q_learning_grid_world.yaml"),
        "--run-dir", str(run), "--seeds", str(AGENTS), "--train.total_timesteps", str(steps),
        "--evaluation.episodes", "0", "--run.block_seconds", "0.2",
        "--run.track_wait", str(WAIT), *flags,
    ]  # fmt: skip
    start, cpu = time.perf_counter(), _cpu_of_children()
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    wall, cpu = time.perf_counter() - start, _cpu_of_children() - cpu
    if done.returncode:
        raise RuntimeError(f"a training failed: {done.stderr}")
    records = RunDirectory(run).read_metrics("update")
    return records[-1]["seconds"] - records[0]["seconds"], wall, cpu


def _cpu_of_children() -> float:
    """Return the processor time of all processes that have been waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
