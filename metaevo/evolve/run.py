"""One run of evolution from its settings to its report: start, resume, stop, and what is written.

The host only starts blocks of generations; between two blocks it logs, saves and reacts to signals.
Of several processes the first one leads: it writes, and says how long a block is and when to stop.
"""

import contextlib
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

from metaevo.agents.limits import check_evolution, check_state
from metaevo.agents.train_learner import Normalisation, Task, TrainLearner, measure_normalisation
from metaevo.components import discovery
from metaevo.config import ConfigError, to_dict
from metaevo.evolve.conclusion import finish
from metaevo.held_out.tuning import tuning_space
from metaevo.outer_loop import memory
from metaevo.outer_loop.evolution import BLOCK_CAPACITY, Evolution, State
from metaevo.outer_loop.strategy import Strategy, generations_limit
from metaevo.parallel import devices, hosts
from metaevo.runs import checkpoint, tracking
from metaevo.runs.lifecycle import (
    StopRequestedError,
    check_same,
    end_on_device_error,
    open_run,
    raise_if_requested,
    start_tracker,
    way_out,
)
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.signals import StopOnSignal
from metaevo.studies.learner import Parts, make_parts

SCALAR_ARGUMENTS = {"value_loss": 3, "policy_loss": 2}
"""Scalars that the functions in a slot are called with; they return a scalar."""
HARMLESS = (
    "evolution.generations", "evolution.block_seconds", "evolution.chunk_size",
    "evolution.num_devices", "evaluation.", "run.checkpoint_every", "run.keep_checkpoints",
    "run.wandb", "run.mlflow", "run.track",
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
        DiskError: if the directory can no longer be written.
    """

    def build() -> Parts:
        parts = make_parts(settings)
        check_settings(settings, parts)
        tuning_space(settings.evaluation, settings)  # refuses what cannot be tuned over
        return parts

    parts = hosts.agreed(build)
    if not hosts.is_first():
        hosts.agreed(_listen)
        return _follow(settings, parts)
    with contextlib.ExitStack() as stack:

        def open_and_lock() -> RunDirectory:
            run = open_run(run_dir, experiment, resume=resume)
            stack.enter_context(run.held(way_out(run)))
            return run

        run = hosts.agreed(open_and_lock)
        return _lead(settings, run, parts, resume)


def _lead(settings: Any, run: RunDirectory, parts: Parts, resume: bool) -> int:
    """Run an experiment as the first process, which may be the only one."""
    alone = jax.process_count() == 1  # of several, `hosts.together` ends one that fails
    with StopOnSignal() as stop, end_on_device_error(run) if alone else contextlib.nullcontext():
        saved, resolved = hosts.of_first(lambda: _resolve(settings, run, parts, resume))
        if resolved is None:
            print(f"{run.path} is finished ({settings.evolution.generations} generations)")
            return 0
        print(f"run directory: {run.path}", file=sys.stderr, flush=True)
        # What an earlier end of this run has left no longer says how it ends.
        run.report_path.unlink(missing_ok=True)
        run.evaluation_path.unlink(missing_ok=True)
        this = _build(settings, run, parts, saved, resolved, stop)
        try:
            _evolve(this, resume)
            hosts.leave()  # the rest is done by this process alone
            finish(this, lambda: raise_if_requested(stop))
        except StopRequestedError:
            hosts.leave()
            print(f"stopped; continue with: --resume --run-dir {run.path}", file=sys.stderr)
        finally:
            this.tracker.finish()
        return stop.exit_code


def _follow(settings: Any, parts: Parts) -> int:
    """Do the same in another process, which hears from the first one all that it cannot know."""
    with StopOnSignal() as stop:
        _, resolved = hosts.of_first(_listen)
        if resolved is None:
            return 0
        evolution, _, _ = _evolution(settings, parts, resolved)
        hosts.agreed(_listen)  # the first process reads a checkpoint
        state, _ = _place(evolution, evolution.start())
        if _in_lockstep(stop, 0):
            evolution, _ = memory.fit(evolution, keep=settings.evolution.chunk_size is not None)
        while length := _in_lockstep(stop, 0):
            evolution, state, _ = memory.run_block(evolution, state, length)
        return stop.exit_code


def _listen() -> Any:
    """Do nothing while the first process does something that can fail."""


def _in_lockstep(stop: StopOnSignal, length: int) -> int:
    """Return how many generations all processes do next; 0, to end, if any is to stop.

    Args:
        stop: asked to stop, if the signal came to another process.
        length: what the first process proposes.
    """
    answers = hosts.gather([length, stop.requested])
    signals = [number for _, number in answers if number is not None]
    if signals:
        stop.requested = stop.requested or signals[0]
        return 0
    return int(answers[0][0])


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
    available, wanted = len(devices.select()), settings.evolution.num_devices
    if wanted is not None and wanted > available:
        raise ConfigError(f"evolution.num_devices = {wanted}: there are {available} devices")
    if wanted is not None and wanted % jax.process_count():
        raise ConfigError(
            f"evolution.num_devices = {wanted}: {jax.process_count()} processes must share them"
        )


def _is_finished(run: RunDirectory, settings: Any, saved: dict[str, Any]) -> bool:
    if not run.report_path.exists():
        return False
    if saved["config"].get("evaluation") != to_dict(settings)["evaluation"]:
        return False
    generations = run.read_metrics("generation")
    done = generations[-1]["generation"] + 1 if generations else 0
    return bool(done >= settings.evolution.generations)


def _resolve(
    settings: Any, run: RunDirectory, parts: Parts, resume: bool
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the config.yaml to resume from and what is resolved; that is None if all is done."""
    saved: dict[str, Any] | None = None
    resolved: dict[str, Any] = {}
    if resume:
        saved = run.read_config()
        check_same(saved["config"], settings, HARMLESS)
        if _is_finished(run, settings, saved):
            return saved, None
        resolved = dict(saved["resolved"])
        before = saved["config"]["evolution"].get("chunk_size")
        if settings.evolution.chunk_size not in (None, before):
            resolved["chunk_size"] = settings.evolution.chunk_size
    if len(settings.task.items()) > 1 and "normalisation" not in resolved:
        resolved["normalisation"] = _normalisation(settings, parts)._asdict()
    return saved, resolved


def _build(
    settings: Any,
    run: RunDirectory,
    parts: Parts,
    saved: dict[str, Any] | None,
    resolved: dict[str, Any],
    stop: StopOnSignal,
) -> EvolutionRun:
    evolution, tasks, normalisation = _evolution(settings, parts, resolved)
    before = saved["resolved"] if saved is not None else {}
    layout = {"num_devices": evolution.num_devices, "chunk_size": evolution.chunk_size}
    for name, number in layout.items():
        if before.get(name, number) != number:
            warnings.warn(
                f"the run began with {name} = {before[name]} and goes on with {number}: results "
                "agree up to rounding, not bit for bit",
                stacklevel=2,
            )
    resolved.setdefault("run_id", uuid.uuid4().hex)
    resolved.setdefault("num_devices", evolution.num_devices)  # those that the run began with
    resolved["chunk_size"] = evolution.chunk_size
    run.write_config(to_dict(settings), resolved, devices.describe(), saved)
    tracker = start_tracker(settings, run, "evolution")
    return EvolutionRun(
        settings, run, parts, tasks, normalisation, evolution,
        resolved["run_id"], tracker, stop,
    )  # fmt: skip


def _evolution(
    settings: Any, parts: Parts, resolved: dict[str, Any]
) -> tuple[Evolution, list[Task], Normalisation | None]:
    """Return the same evolution in all processes, and what it is made of."""
    tasks = parts.tasks(settings, parts.component.apply)
    normalisation = None
    if (bounds := resolved.get("normalisation")) is not None:
        normalisation = Normalisation(tuple(bounds["random"]), tuple(bounds["reference"]))
    problem = TrainLearner(
        tasks, settings.hyperparams, parts.component, settings.fitness, normalisation
    )
    config = settings.evolution
    if "chunk_size" in resolved:  # a resumed run repeats what was resolved when it began
        config = replace(config, chunk_size=int(resolved["chunk_size"]))
    evolution = Evolution(problem, settings.strategy, config, seed=settings.run.seed)
    chunk_size = hosts.gather(evolution.chunk_size)[0]
    return evolution.with_chunk_size(chunk_size), tasks, normalisation


def _normalisation(settings: Any, parts: Parts) -> Normalisation:
    from metaevo.held_out.comparison import hand_written

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
    run, config, every = this.run, this.settings.evolution, this.settings.run.checkpoint_every
    restored = hosts.agreed(lambda: _restore(this) if resume else None)
    tree, seconds = restored or (this.evolution.start(), 0.0)
    (state, done), total = _place(this.evolution, tree), config.generations
    started = time.monotonic() - seconds
    if restored is None:  # so that whatever is logged has a checkpoint before it
        _save(this, state, 0.0)
    with Progress(total=total, initial=done, desc="compiling", unit="gen") as bar:
        if _in_lockstep(this.stop, total - done):  # nobody waits for a compilation to stop
            _use(this, *memory.fit(this.evolution, keep=config.chunk_size is not None))
        bar.stage("evolving")
        elapsed, length, saved = config.block_seconds, 1, done
        while True:
            length = int(min(length * config.block_seconds / elapsed, BLOCK_CAPACITY))
            length = max(1, min(length, every - done % every))
            length = _in_lockstep(this.stop, min(length, total - done))
            if length == 0:
                break
            before = time.monotonic()
            evolution, state, metrics = memory.run_block(this.evolution, state, length)
            elapsed = time.monotonic() - before
            if evolution is not this.evolution:
                _use(this, evolution, evolution.compile())
            _log(this, metrics, done, elapsed, before - started)
            done += length
            _show(bar, this, metrics, done, elapsed)
            if done % every == 0 or done == total:
                _save(this, state, time.monotonic() - started)
                saved = done
    if done < total:
        if saved < done:
            _save(this, state, time.monotonic() - started)
        raise StopRequestedError
    discovery.save(
        run, this.settings.evolve, this.settings.component, this.evolution.result(state), done
    )


def _place(evolution: Evolution, tree: State) -> tuple[State, int]:
    """Put the first process's state on all devices; return it and the generations done."""
    tree = hosts.share(jax.device_get(tree))
    return devices.replicate(tree, evolution.num_devices), int(tree.generation)


def _use(this: EvolutionRun, evolution: Evolution, needed: int) -> None:
    """Go on with an evolution whose chunks fit, and say how it is laid out."""
    if evolution.chunk_size != this.evolution.chunk_size:
        this.run.update_resolved({"chunk_size": evolution.chunk_size})
    this.evolution = evolution
    tqdm.write(
        f"{this.run.path}: {evolution.population_size} candidates x "
        f"{evolution.config.seeds_per_candidate} seeds on {evolution.num_devices} devices"
        f"{f' of {jax.process_count()} processes' if jax.process_count() > 1 else ''}, "
        f"{evolution.chunk_size} agents at once on each, about {memory.as_text(needed)} a device",
        file=sys.stderr,
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
    of_mean = metrics["fitness_of_mean"][np.isfinite(metrics["fitness_of_mean"])]
    if len(of_mean):
        bar.of_mean = f"{of_mean[-1]:.4g}"
    frames = this.evolution.frames(done) - this.evolution.frames(done - length)
    bar.set_postfix_str(
        f"of mean {getattr(bar, 'of_mean', '-')}, best {metrics['fitness_best'][-1]:.4g}, "
        f"mean {metrics['fitness_mean'][-1]:.4g}, {frames / elapsed:,.0f} frames/s"
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
    if checkpoint.is_empty(this.run.checkpoints) and not this.run.read_metrics("generation"):
        return None  # killed before anything was saved: begin again
    restored = checkpoint.restore(
        this.run.checkpoints, this.evolution.template, expected={"run_id": this.run_id}
    )
    this.run.truncate_metrics("generation", restored.index - 1)
    return restored.tree, float(restored.metadata["seconds"])
