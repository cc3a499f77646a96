"""Small but complete runs of the scripts, and the results that faults must not change."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.compiling import SHORT
from tests.processes import ROOT

AGENT = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 4, slip_probability: 0.1, max_steps_in_episode: 20}}
hyperparams: {learning_rate: 0.3, gamma: 0.9, epsilon_start: 0.1}
"""
EVOLUTION = """
evolve: value_loss
train: {total_timesteps: 400, num_steps: 50}
component: {form: additive, hidden_sizes: [4], inputs: [error], start: squared}
fitness: {mean_return: 0.0, reward_per_step: 400.0}
strategy: {algorithm: Open_ES, population_size: 16, sigma: 0.15, learning_rate: 0.05}
evolution: {seeds_per_candidate: 2, validation_every: 10, validation_seeds: 8,
            chunk_size: 8, generations: 400}
evaluation: {seeds: 16, settings: 8, finalists: 3, selection_seeds: 8,
             space: {learning_rate: [0.2, 0.5]}}
run: {keep_checkpoints: 12}
"""
TRAIN = """
seeds: 4
train: {total_timesteps: 15000, num_steps: 50}
fitness: {evaluation_return: 1.0, evaluations: 30, evaluation_episodes: 2}
evaluation: {episodes: 2}
run: {log_every: 1, block_seconds: 1.0e-9, checkpoint_seconds: 0.01, chunk_size: 2,
      keep_checkpoints: 12}
"""
SWEEP = """
train: {total_timesteps: 2000, num_steps: 50}
fitness: {mean_return: 0.0, reward_per_step: 1.0}
space:
  hyperparams.learning_rate: {log_uniform: [0.01, 0.9]}
  hyperparams.epsilon_start: {uniform: [0.1, 1.0]}
sweep: {trials: 60, sampler: random, batch: 3, seeds: 2, confirm_seeds: 4}
"""
PROGRAMS = """
evolve: program
train: {total_timesteps: 400, num_steps: 50}
component: {gives: slope, inputs: [error], length: 8, depth: 4, operations: [add, multiply, tanh]}
fitness: {mean_return: 0.0, reward_per_step: 400.0}
strategy: {algorithm: genetic_programming, population_size: 16}
evolution: {generations: 60, validation_every: 10, validation_seeds: 8}
evaluation: {seeds: 0}
"""
# Two devices evaluate 14 agents in chunks of 2, four in chunks of 3 with one idle.
UNEVEN = """
evolve: value_loss
train: {total_timesteps: 100, num_steps: 50}
component: {hidden_sizes: [4]}
fitness: {mean_return: 0.0, reward_per_step: 200.0}
strategy: {algorithm: SNES, population_size: 7, sigma: 0.2, learning_rate: 0.05}
evolution: {generations: 80, seeds_per_candidate: 2, validation_every: 4, validation_seeds: 3,
            block_size: 1}
evaluation: {seeds: 0}
"""
DRAWS_LITTLE = """
import sys
from metaevo.reports import film, plots
film.FRAMES, plots.DPI = 3, 50
from metaevo.__main__ import main
sys.exit(main())
"""
"""The command; the film of a report takes longer than a short evolution."""


class Process(subprocess.Popen[str]):
    """A process whose output is in files: one that nobody reads can fill a pipe and then stands."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        out, err = self._files
        super().__init__(command, text=True, stdout=out, stderr=err, **options)

    def ended(self, *codes: int) -> str:
        """Wait for its end, with one of these codes if any are given; what stderr has.

        `printed` has what was on stdout.
        """
        self.wait(timeout=500)
        texts = []
        for file in self._files:
            with file:
                file.seek(0)
                texts.append(file.read())
        self.printed, error = texts
        assert not codes or self.returncode in codes, error
        return error


@dataclass(frozen=True)
class Work:
    name: str
    what: str
    """the command of metaevo"""
    settings: str
    total: int
    """generations, updates or trials, of which each has a record"""
    overrides: tuple[str, ...] = ()
    program: tuple[str, ...] = ("-m", "metaevo")

    def command(self, run_dir: Path) -> list[str]:
        """Begin the run, or continue it: what a scheduler's script would do."""
        script = [sys.executable, *self.program, self.what, "--run-dir"]
        if (run_dir / "config.yaml").exists():
            return [*script, str(run_dir), "--resume"]
        settings = run_dir.with_name(f"{self.name}.yaml")
        settings.write_text(AGENT + self.settings)
        return [*script, str(run_dir), "--config", str(settings), *self.overrides]

    def start(self, run_dir: Path, cache: Path, *arguments: object, devices: int = 2) -> Process:
        """Start the script on so many devices; compiled programs are kept in `cache`."""
        flags = f"--xla_force_host_platform_device_count={devices} {SHORT}"
        environment = {
            **os.environ,
            "XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen=false",
            "PYTHONPATH": str(ROOT),
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        }
        command = [*self.command(run_dir), *map(str, arguments)]
        return Process(command, cwd=run_dir.parent, env=environment)

    def run(
        self, run_dir: Path, cache: Path, *arguments: object, code: int = 0, devices: int = 2
    ) -> str:
        return self.start(run_dir, cache, *arguments, devices=devices).ended(code)

    def result(self, run_dir: Path) -> dict[str, Any]:
        """Return what must be equal to the bit, however often the run was interrupted."""
        found: dict[str, Any] = {"records": records(run_dir)}
        if self.name == "sweep":
            found["records"] = _trials(found["records"])
        for name in ("meta_params.npz", "scores.npz"):
            if (run_dir / name).exists():
                found[name] = arrays_in(run_dir / name)
        if saved := checkpoints_in(run_dir):
            found["checkpoint"] = saved[-1].name, arrays_in(saved[-1])
        for name in ("learning_curves.csv", "best.yaml", "evaluation.json", "others.json"):
            if (run_dir / name).exists():
                found[name] = (run_dir / name).read_text()
        if self.name == "sweep":  # the numbers of trials count the retries
            found["best.yaml"] = found["best.yaml"].split("\n", 1)[1]
            found["evaluation.json"] = json.loads(found["evaluation.json"]) | {"best_trial": None}
        return found


WORKS = {
    "evolution": Work("evolution", "evolve", EVOLUTION, 400),
    "short": Work(
        "short", "evolve", EVOLUTION, 60,
        ("--evolution.generations=60", "--evaluation.seeds=0"),
    ),
    "train": Work("train", "train", TRAIN, 300),
    "sweep": Work("sweep", "sweep", SWEEP, 60),
    "programs": Work("programs", "evolve", PROGRAMS, 60),
    "uneven": Work("uneven", "evolve", UNEVEN, 80, program=("-c", DRAWS_LITTLE)),
}  # fmt: skip


def wait_for(found: Callable[[], object], process: Process) -> None:
    while not found():
        assert process.poll() is None, process.ended()
        time.sleep(0.0005)


def count_records(run_dir: Path) -> int:
    path = run_dir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def records(run_dir: Path, *kinds: str) -> list[dict[str, Any]]:
    """Return the records of these kinds, or all, but for their times, which no two runs share."""
    path = run_dir / "metrics.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for record in found:
        del record["seconds"]
    return [record for record in found if not kinds or record["kind"] in kinds]


def _trials(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of a sweep without the numbers of the trials, which count the retries."""
    trials = [record for record in found if record["kind"] == "trial"]
    assert len({record["trial"] for record in trials}) == len(trials)
    for record in trials:
        del record["trial"], record["frames"]
    trials.sort(key=lambda record: sorted(record["params"].items()))
    return trials + [record for record in found if record["kind"] != "trial"]


def checkpoints_in(run_dir: Path) -> list[Path]:
    """Return the files of a run's checkpoints, complete or damaged, in order."""
    return sorted((run_dir / "checkpoints").glob("[0-9]*.npz"))


def arrays_in(path: Path) -> dict[str, bytes]:
    """Return the arrays of a file; the metadata of saved trees have the time."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name].tobytes() for name in file.files if name != "metadata"}
