"""One run of evolution from its settings to its report: start, resume, stop, and what is written.

The host only starts blocks of generations; between two blocks it logs, saves and reacts to signals.
"""

import sys
import time
import uuid
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from metaevo import checkpoint, devices, discovery, tracking
from metaevo.config import ConfigError, to_dict
from metaevo.evolution import BLOCK_CAPACITY, Evolution, State
from metaevo.experiment import Parts, make_parts
from metaevo.finish import finish
from metaevo.limits import check_evolution, check_state
from metaevo.problems.train_learner import (
    Normalisation,
    Task,
    TrainLearner,
    measure_normalisation,
)
from metaevo.run_directory import RunDirectory
from metaevo.script import (
    StopRequestedError,
    check_same,
    end_on_device_error,
    open_run,
    raise_if_requested,
    start_tracker,
)
from metaevo.signals import StopOnSignal
from metaevo.strategy import Strategy, generations_limit
from metaevo.tuning import tuning_space

SCALAR_ARGUMENTS = {"value_loss": 3, "policy_loss": 2}
"""Scalars that the functions in a slot are called with; they return a scalar."""
HARMLESS = (
    "evolution.generations", "evolution.block_seconds", "evaluation.", "run.checkpoint_every",
    "run.keep_checkpoints", "run.wandb", "run.mlflow", "run.track",
)  # fmt: skip
"""Settings that a resumed run may change."""


@dataclass
class EvolutionRun:
    """The parts of one run, built from its settings."""

    settings: Any
    run: RunDirectory
    parts: Parts
    tasks: list[Task]
    normalisation: Normalisation | None
    evolution: Evolution
    run_id: str
    tracker: tracking.Tracker
    stop: StopOnSignal


def run_evolution(settings: Any, *, run_dir: Path | None, resume: bool, experiment: str) -> int:
    """Run an experiment to its end, or until a signal.

    Args:
        settings: an instance of `experiment_class(...)`.
        run_dir: where to write; by default `runs/<experiment>/<timestamp>`.
        resume: continue the run in `run_dir` from its last checkpoint.
        experiment: the name of the experiment.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory, before compilation.
    """
    parts = make_parts(settings)
    check_settings(settings, parts)
    tuning_space(settings.evaluation, settings)  # refuses what cannot be tuned over
    run = open_run(run_dir, experiment, resume=resume)
    run.lock()
    try:
        return _run_locked(settings, run, parts, resume)
    finally:
        run.unlock()


def _run_locked(settings: Any, run: RunDirectory, parts: Parts, resume: bool) -> int:
    saved = run.read_config() if resume else None
    if saved is not None:
        check_same(saved["config"], settings, HARMLESS)
        if _is_finished(run, settings, saved):
            print(f"{run.path} is finished ({settings.evolution.generations} generations)")
            return 0
        # What an earlier end of this run has left no longer says how it ends.
        run.report_path.unlink(missing_ok=True)
        run.evaluation_path.unlink(missing_ok=True)
    with StopOnSignal() as stop, end_on_device_error(run):
        this = _build(settings, run, parts, saved, stop)
        try:
            _evolve(this, resume)
            finish(this, lambda: raise_if_requested(stop))
        except StopRequestedError:
            print(f"stopped; continue with: --resume --run-dir {run.path}", file=sys.stderr)
        finally:
            this.tracker.finish()
        return stop.exit_code


def check_settings(settings: Any, parts: Parts) -> None:
    """Find out before anything compiles whether strategy, learner and environments fit."""
    tasks = parts.tasks(settings, parts.component.apply)
    shapes = jax.eval_shape(parts.component.init, jax.random.key(0))
    check_evolution(settings, tasks, shapes)
    solution = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    scalars = [jax.ShapeDtypeStruct((), np.float32)] * SCALAR_ARGUMENTS.get(parts.slot, 0)
    if scalars:
        loss = jax.eval_shape(parts.component.apply, solution, settings.hyperparams, *scalars)
        if getattr(loss, "shape", None) != ():
            raise ConfigError(f"evolve: {settings.evolve} must return a scalar, not {loss}")
    check_state(Strategy(settings.strategy, solution), parts.component.init)
    limit = generations_limit(settings.strategy)
    if settings.evolution.generations > limit:
        raise ConfigError(
            f"evolution.generations = {settings.evolution.generations}: "
            f"{settings.strategy.algorithm} runs for {limit:.0f}; set "
            "strategy.settings.num_generations"
        )
    available = len(jax.devices())
    wanted = settings.evolution.num_devices
    if wanted is not None and wanted > available:
        raise ConfigError(f"evolution.num_devices = {wanted}: there are {available} devices")


def _is_finished(run: RunDirectory, settings: Any, saved: dict[str, Any]) -> bool:
    if not run.report_path.exists():
        return False
    if saved["config"].get("evaluation") != to_dict(settings)["evaluation"]:
        return False
    generations = run.read_metrics("generation")
    done = generations[-1]["generation"] + 1 if generations else 0
    return bool(done >= settings.evolution.generations)


def _build(
    settings: Any,
    run: RunDirectory,
    parts: Parts,
    saved: dict[str, Any] | None,
    stop: StopOnSignal,
) -> EvolutionRun:
    resolved = dict(saved["resolved"]) if saved is not None else {}
    tasks = parts.tasks(settings, parts.component.apply)
    normalisation = None
    if len(tasks) > 1:
        normalisation = _normalisation(settings, parts, resolved)
        resolved["normalisation"] = normalisation._asdict()
    problem = TrainLearner(
        tasks, settings.hyperparams, parts.component, settings.fitness, normalisation
    )
    config = settings.evolution
    if "chunk_size" in resolved:  # a resumed run repeats what was resolved when it began
        config = replace(config, chunk_size=int(resolved["chunk_size"]))
    evolution = Evolution(problem, settings.strategy, config, seed=settings.run.seed)
    before = resolved.get("num_devices", evolution.num_devices)
    if before != evolution.num_devices:
        warnings.warn(
            f"the run began on {before} devices and goes on with {evolution.num_devices}: results "
            "agree up to rounding, not bit for bit",
            stacklevel=2,
        )
    resolved |= {
        "run_id": resolved.get("run_id", uuid.uuid4().hex),
        "chunk_size": evolution.chunk_size,
        "num_devices": before,
    }
    run.write_config(to_dict(settings), resolved, devices.describe(), saved)
    tracker = start_tracker(settings, run, "evolution")
    return EvolutionRun(
        settings, run, parts, tasks, normalisation, evolution,
        resolved["run_id"], tracker, stop,
    )  # fmt: skip


def _normalisation(settings: Any, parts: Parts, resolved: dict[str, Any]) -> Normalisation:
    if "normalisation" in resolved:
        bounds = resolved["normalisation"]
        return Normalisation(tuple(bounds["random"]), tuple(bounds["reference"]))
    from metaevo.comparison import hand_written

    _, function = hand_written(parts.slot, settings.learner)
    tasks = parts.tasks(settings, function)
    try:
        return measure_normalisation(
            tasks, settings.hyperparams, np.int32(0), settings.fitness, seed=settings.run.seed
        )
    except ValueError as error:
        raise ConfigError(f"task.env: {error}") from error


def _evolve(this: EvolutionRun, resume: bool) -> None:
    """Run the generations that are missing."""
    evolution, run, total = this.evolution, this.run, this.settings.evolution.generations
    restored = _restore(this) if resume else None
    state, seconds = restored or (evolution.init(), 0.0)
    done = int(devices.first(state.generation))
    started = time.monotonic() - seconds
    if restored is None:  # so that whatever is logged has a checkpoint before it
        _save(this, state, 0.0)
    print(
        f"{run.path}: {evolution.population_size} candidates x "
        f"{this.settings.evolution.seeds_per_candidate} seeds on {evolution.num_devices} devices, "
        f"{evolution.chunk_size} agents at once on each",
        file=sys.stderr,
    )
    with tqdm(total=total, initial=done, desc="compiling", unit="gen") as bar:
        length = 1
        while done < total:
            until_checkpoint = (
                this.settings.run.checkpoint_every - done % this.settings.run.checkpoint_every
            )
            length = max(1, min(length, total - done, until_checkpoint, BLOCK_CAPACITY))
            before = time.monotonic()
            state, metrics = evolution.run_block(state, length)
            elapsed = time.monotonic() - before
            _log(this, metrics, done, elapsed, before - started)
            done += length
            _show(bar, this, metrics, done, elapsed)
            due = done % this.settings.run.checkpoint_every == 0 or done == total
            if due or this.stop.requested:
                _save(this, state, time.monotonic() - started)
            raise_if_requested(this.stop)
            length = int(min(this.settings.evolution.block_seconds / elapsed * length, total))
    discovery.save(
        run, this.settings.evolve, this.settings.component, evolution.result(state), done
    )


def _log(
    this: EvolutionRun, metrics: dict[str, np.ndarray], done: int, elapsed: float, since: float
) -> None:
    count = len(metrics["fitness_mean"])
    for index in range(count):
        record = {
            "kind": "generation",
            "generation": done + index,
            "frames": this.evolution.frames(done + index + 1),
            "seconds": round(since + elapsed * (index + 1) / count, 3),
            **{key: values[index] for key, values in metrics.items()},
        }
        this.run.append_metrics(record)
        this.tracker.log(record)


def _show(
    bar: Any, this: EvolutionRun, metrics: dict[str, np.ndarray], done: int, elapsed: float
) -> None:
    length = len(metrics["fitness_mean"])
    bar.update(length)
    bar.set_description("evolving", refresh=False)
    of_mean = metrics["fitness_of_mean"][np.isfinite(metrics["fitness_of_mean"])]
    if len(of_mean):
        bar.of_mean = f"{of_mean[-1]:.4g}"
    frames = this.evolution.frames(done) - this.evolution.frames(done - length)
    bar.set_postfix_str(
        f"mean {metrics['fitness_mean'][-1]:.4g}, best {metrics['fitness_best'][-1]:.4g}, "
        f"of mean {getattr(bar, 'of_mean', '-')}, {frames / elapsed:,.0f} frames/s"
    )
    failed = int(metrics["diverged"][-1])
    if failed == this.evolution.population_size:
        tqdm.write("warning: every candidate of the last generation failed", file=sys.stderr)


def _save(this: EvolutionRun, state: State, seconds: float) -> None:
    state = jax.device_get(devices.first(state))
    this.run.sync()
    checkpoint.save(
        this.run.checkpoints,
        int(state.generation),
        state,
        metadata={"run_id": this.run_id, "seconds": seconds},
        keep=this.settings.run.keep_checkpoints,
    )


def _restore(this: EvolutionRun) -> tuple[State, float] | None:
    """Return the last checkpoint's state and forget what was logged after it."""
    if not this.run.checkpoints.is_dir() and not this.run.read_metrics("generation"):
        return None  # killed before anything was saved: begin again
    restored = checkpoint.restore(
        this.run.checkpoints, this.evolution.template, expected={"run_id": this.run_id}
    )
    this.run.truncate_metrics("generation", restored.index - 1)
    state = devices.replicate(restored.tree, this.evolution.num_devices)
    return state, float(restored.metadata["seconds"])
