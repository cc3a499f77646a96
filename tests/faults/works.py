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

ROOT = Path(__file__).resolve().parent.parent.parent
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
SHORT = {"evolution.generations": 60, "evaluation.seeds": 0}
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


class Process(subprocess.Popen[str]):
    """A process whose stderr is a file: one that nobody reads can fill a pipe and then stands."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        super().__init__(
            command, text=True, stdout=subprocess.DEVNULL, stderr=self._errors, **options
        )

    def ended(self) -> str:
        """Wait for its end; what it has said on stderr."""
        self.wait(timeout=500)
        self._errors.seek(0)
        with self._errors:
            return self._errors.read()


@dataclass(frozen=True)
class Work:
    """A run to disturb."""

    name: str
    what: str
    """the command of metaevo"""
    settings: str
    kind: str
    """of the records that count its progress"""
    total: int
    """of these records at the end"""
    overrides: tuple[str, ...] = ()

    def command(self, run_dir: Path) -> list[str]:
        """Begin the run, or continue it: what a scheduler's script would do."""
        script = [sys.executable, "-m", "metaevo", self.what, "--run-dir"]
        if (run_dir / "config.yaml").exists():
            return [*script, str(run_dir), "--resume"]
        settings = run_dir.with_name(f"{self.name}.yaml")
        settings.write_text(AGENT + self.settings)
        return [*script, str(run_dir), "--config", str(settings), *self.overrides]

    def start(self, run_dir: Path, cache: Path | None, **options: Any) -> "Process":
        """Start the script on two devices; compiled programs are kept in `cache`, if given."""
        options.setdefault("env", self.environment(cache))
        return Process(self.command(run_dir), cwd=run_dir.parent, **options)

    def environment(self, cache: Path | None) -> dict[str, str]:
        """Return the environment of the script."""
        environment = {
            **os.environ,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2 "
            "--xla_cpu_multi_thread_eigen=false",
            "PYTHONPATH": str(ROOT),
        }
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        if cache is not None:
            environment |= {
                "JAX_COMPILATION_CACHE_DIR": str(cache),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            }
        return environment

    def run(
        self, run_dir: Path, cache: Path | None = None, *, code: int = 0, **options: Any
    ) -> str:
        """Let it go on to its end; what it said on stderr."""
        process = self.start(run_dir, cache, **options)
        error = process.ended()
        assert process.returncode == code, error
        return error

    def result(self, run_dir: Path) -> dict[str, Any]:
        """Return what must be equal to the bit, however often the run was interrupted."""
        found: dict[str, Any] = {"records": records(run_dir)}
        if self.name == "sweep":
            found["records"] = _trials(found["records"])
        for name in ("meta_params.npz", "training.npz", "scores.npz"):
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
    "evolution": Work("evolution", "evolve", EVOLUTION, "generation", 400),
    "short": Work(
        "short", "evolve", EVOLUTION, "generation", 60,
        tuple(f"--{key}={value}" for key, value in SHORT.items()),
    ),
    "train": Work("train", "train", TRAIN, "update", 300),
    "sweep": Work("sweep", "sweep", SWEEP, "trial", 60),
    "programs": Work("programs", "evolve", PROGRAMS, "generation", 60),
}  # fmt: skip


def wait_for(found: Callable[[], object], process: Process) -> None:
    """Return as soon as something is found, while the process goes on."""
    while not found():
        assert process.poll() is None, process.ended()
        time.sleep(0.0005)


def count_records(run_dir: Path) -> int:
    """Return how many lines metrics.jsonl has so far."""
    path = run_dir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def records(run_dir: Path) -> list[dict[str, Any]]:
    """Return metrics.jsonl but for the times; no index may be there twice or be missing."""
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    for record in found:
        del record["seconds"]
    return found


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
