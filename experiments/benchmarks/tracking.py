"""The suite `tracking`: the cost of trackers, as whole runs of `metaevo train`.

The seconds and CPU seconds include the whole command with all its processes and the wait for a
server at the end. The CPU seconds depend least on other load of the machine. The loop is
the part from the first point of the learning curve to the last, which a tracker slows down by using
a core.
"""

import argparse
import contextlib
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.benchmarks.comparison import Comparison
from experiments.benchmarks.machine import ROOT
from experiments.benchmarks.processes import Sample, own
from experiments.benchmarks.work import Made

AGENTS, AGENT_STEPS = 512, 100_000
WAIT = 10
"""maximum seconds that a run waits at its end"""
NONE = "none"
FLAGS = {
    NONE: [],
    "wandb offline": ["--wandb", "offline"],
    "MLflow sqlite": ["--mlflow", "sqlite:///PLACE/store.db"],
    "both": ["--wandb", "offline", "--mlflow", "sqlite:///PLACE/both.db"],
    "wandb online, silent server": ["--wandb", "online"],
    "MLflow, locked database": ["--mlflow", "sqlite:///PLACE/locked.db"],
}
"""Of each tracker; PLACE is a directory that exists during all repetitions."""


def suite(options: argparse.Namespace) -> Comparison:
    """Training of Q-learning with and without trackers, also with servers that never answer."""
    steps = options.agent_steps or AGENT_STEPS
    print(f"Q-learning, {AGENTS} agents, {steps:,} steps each, waits {WAIT} s at most")
    comparison = Comparison(
        "runs", "agent steps", faster_than=NONE, extra={"command, s": "seconds", "loop, s": "loop"}
    )
    variants = {name: own("tracking:train", tracker=name, steps=steps) for name in FLAGS}
    comparison.case(variants, options.repeats, steps)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def train(tracker: str, steps: int) -> Made:
    """Whole runs with one tracker."""
    directory = tempfile.TemporaryDirectory()
    place = Path(directory.name)
    flags = [each.replace("PLACE", str(place)) for each in FLAGS[tracker]]

    def measure(repeat: int) -> Sample:
        assert directory  # which is removed with this function
        run = place / f"run-{repeat}"
        command = [
            sys.executable, "-m", "metaevo", "train",
            "--config", "configs/train/q_learning_grid_world.yaml", "--run-dir", str(run),
            "--seeds", str(AGENTS), "--train.total_timesteps", str(steps),
            "--evaluation.episodes", "0", "--run.block_seconds", "0.2",
            "--run.track_wait", str(WAIT), *flags,
        ]  # fmt: skip
        with _silent_server(tracker) as variables, _locked_database(place / "locked.db"):
            start, cpu = time.perf_counter(), _cpu_of_children()
            done = subprocess.run(
                command, env=os.environ | variables, cwd=ROOT,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            seconds, cpu = time.perf_counter() - start, _cpu_of_children() - cpu
        if done.returncode:
            raise RuntimeError(f"a training failed: {done.stderr}")
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": 1.0, "loop": _loop_seconds(run)}

    return measure, {"layout": "a command"}


@contextlib.contextmanager
def _silent_server(tracker: str) -> Iterator[dict[str, str]]:
    """Listen, accept connections and never answer; yield the variables that lead wandb there."""
    if "silent server" not in tracker:
        yield {}
        return
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield {"WANDB_BASE_URL": address, "WANDB_API_KEY": "0" * 40}


@contextlib.contextmanager
def _locked_database(path: Path) -> Iterator[None]:
    """Lock a database for writing."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield


def _loop_seconds(run: Path) -> float:
    from metaevo.runs.run_directory import RunDirectory

    times = [record["seconds"] for record in RunDirectory.open(run).read_metrics("update")]
    return times[-1] - times[0]


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
