"""Training from a command line: any learner in any environment, many agents side by side.

The host only starts blocks of updates; between two blocks it logs, saves and reacts to signals.
"""

import sys
import time
import uuid
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.agents.limits import check_training
from metaevo.agents.population import Population, State
from metaevo.agents.train_learner import Task
from metaevo.config import ConfigError, exit_on_config_error, to_dict
from metaevo.config.command_line import parse_command_line
from metaevo.parallel import devices
from metaevo.parallel.seeding import Purpose, keys_for
from metaevo.runs import checkpoint, tracking
from metaevo.runs.lifecycle import (
    StopRequestedError,
    check_same,
    end_on_device_error,
    open_run,
    raise_if_requested,
    run_parser,
    settings_to_resume,
    start_tracker,
    way_out,
    with_trackers,
)
from metaevo.runs.progress import Progress
from metaevo.runs.quick import quickened
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.signals import StopOnSignal
from metaevo.statistics.table import mean_curve
from metaevo.train import report as training_report
from metaevo.train.settings import (
    Trainee,
    copy_of_loss,
    make_trainee,
    named_slots,
    save_policies,
    training_class,
)
from purerl.parts.losses import HAND_WRITTEN

EXPERIMENT = "train"
HARMLESS = (
    "evaluation.", "run.block_seconds", "run.checkpoint_seconds", "run.keep_checkpoints",
    "run.num_devices", "run.wandb", "run.mlflow", "run.track",
)  # fmt: skip
"""Settings that a resumed run may change."""
CURVE_POINTS = 200
"""of a learning curve, at most"""


@dataclass
class TrainingRun:
    """The parts of one run, built from its settings."""

    settings: Any
    run: RunDirectory
    trainee: Trainee
    population: Population
    run_id: str
    tracker: tracking.Tracker
    stop: StopOnSignal


@exit_on_config_error()
def main(argv: list[str], *, description: str | None) -> int:
    """Parse a command line, train, return the exit code.

    Args:
        argv: without the program's name.
        description: for `--help`.
    """
    settings: Any
    settings, args = parse_command_line(
        run_parser("train", description),
        argv,
        training_class,
        lambda args, _: settings_to_resume(args) if args.resume else {},
        quickened,
    )
    settings = with_trackers(settings, args)
    return run_training(settings, run_dir=args.run_dir, resume=args.resume)


def run_training(settings: Any, *, run_dir: Path | None, resume: bool) -> int:
    """Train to the end, or until a signal.

    Args:
        settings: an instance of `training_class(...)`.
        run_dir: where to write; by default `runs/train/<timestamp>`.
        resume: continue the run in `run_dir` from its last checkpoint.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory, before compilation.
        DiskError: if the directory can no longer be written.
    """
    trainee = make_trainee(settings, run_dir if resume else None)
    training_report.check(settings, trainee.env_name, trainee.learner.env)
    available, wanted = len(jax.devices()), settings.run.num_devices
    if wanted is not None and wanted > available:
        raise ConfigError(f"run.num_devices = {wanted}: there are {available} devices")
    check_training(
        "seeds",
        Task(trainee.env_name, trainee.learner, trainee.env_params),
        settings.hyperparams,
        trainee.meta_params,
        kept=settings.seeds,
        at_once=min(settings.run.chunk_size or 1, settings.seeds),
        points=settings.train.num_updates // (settings.run.log_every or settings.train.num_updates),
    )
    run = open_run(run_dir, EXPERIMENT, resume=resume)
    with run.held(way_out(run)):
        saved = run.read_config() if resume else None
        if saved is not None:
            check_same(saved["config"], settings, HARMLESS)
            same_evaluation = saved["config"]["evaluation"] == to_dict(settings.evaluation)
            if run.report_path.exists() and same_evaluation:
                print(f"{run.path} is finished ({settings.train.total_timesteps} steps an agent)")
                return 0
            run.report_path.unlink(missing_ok=True)  # written anew at the new end
        with StopOnSignal() as stop, end_on_device_error(run):
            this = _build(settings, run, trainee, saved, stop)
            try:
                _train_and_finish(this, resume)
            except StopRequestedError:
                print(f"stopped; continue with: --resume --run-dir {run.path}", file=sys.stderr)
            finally:
                this.tracker.finish()
            return stop.exit_code


def _build(
    settings: Any,
    run: RunDirectory,
    trainee: Trainee,
    saved: dict[str, Any] | None,
    stop: StopOnSignal,
) -> TrainingRun:
    resolved = dict(saved["resolved"]) if saved is not None else {}
    population = Population(
        trainee.learner,
        settings.hyperparams,
        trainee.meta_params,
        trainee.env_params,
        agents=settings.seeds,
        log_every=settings.run.log_every or -(-settings.train.num_updates // CURVE_POINTS),
        # A resumed run repeats what was resolved when it began.
        chunk_size=resolved.get("chunk_size", settings.run.chunk_size),
        num_devices=settings.run.num_devices,
    )
    before = resolved.get("num_devices", population.num_devices)
    if before != population.num_devices:
        warnings.warn(
            f"the run began on {before} devices and goes on with {population.num_devices}: results "
            "may agree up to rounding only",
            stacklevel=2,
        )
    resolved |= {
        "run_id": resolved.get("run_id", uuid.uuid4().hex),
        "chunk_size": population.chunk_size,
        "num_devices": before,
        "log_every": population.log_every,
    }
    for slot in named_slots(settings.learner):  # a run is complete without the one it learned from
        source = RunDirectory(Path(getattr(settings, slot)))
        copy = RunDirectory(copy_of_loss(run.path, slot))
        if getattr(settings, slot) not in HAND_WRITTEN[slot] and not copy.meta_params.exists():
            checkpoint.save_tree(copy.meta_params, *checkpoint.load_tree(source.meta_params))
    run.write_config(to_dict(settings), resolved, devices.describe(), saved)
    tracker = start_tracker(settings, run, EXPERIMENT)
    return TrainingRun(settings, run, trainee, population, resolved["run_id"], tracker, stop)


def _train_and_finish(this: TrainingRun, resume: bool) -> None:
    state, seconds = _train(this, resume)
    policies = jax.vmap(this.trainee.learner.policy)(this.population.rows(state.agent))
    save_policies(this.run, policies, {"run_id": this.run_id})
    training_report.finish(
        this,
        policies,
        *this.population.curves(state),
        seconds=seconds,
        check_stop=lambda: raise_if_requested(this.stop),
    )


def _train(this: TrainingRun, resume: bool) -> tuple[State, float]:
    """Run the updates that are missing; return the final state and the seconds it took in all."""
    population, settings, total = this.population, this.settings, this.settings.train.num_updates
    restored = _restore(this) if resume else None
    state, done, seconds = restored or (_initial(this), 0, 0.0)
    logged = done // population.log_every if done < total else population.num_windows
    saved = started = time.monotonic()
    started -= seconds
    print(
        f"{this.run.path}: {settings.seeds} agents on {population.num_devices} devices, "
        f"{population.chunk_size} at once on each",
        file=sys.stderr,
    )
    if not done:  # so that whatever was logged has a checkpoint before it
        _save(this, state, 0, 0.0)
    raise_if_requested(this.stop)  # before it compiles
    with Progress(total=total, initial=done, desc="compiling", unit="update") as bar:
        if done < total:
            state = jax.block_until_ready(population.run(state, done, 0))
            raise_if_requested(this.stop)
        bar.stage("training")
        bar.unpause()  # the time left does not count compilation
        length = 1
        while done < total:
            length = max(1, min(length, total - done))
            before = time.monotonic()
            state = population.run(state, done, length)
            curves = population.curves(state)
            now = time.monotonic()
            done += length
            known = population.num_windows if done == total else done // population.log_every
            _log(this, curves, logged, known, before - started, now - started)
            logged = known
            _show(bar, this, curves, length, now - before)
            due = now - saved >= settings.run.checkpoint_seconds or done == total
            stopping = this.stop.requested  # looked at once: nobody leaves without having saved
            if due or stopping:
                _save(this, state, done, now - started)
                saved = now
            if stopping:
                raise StopRequestedError
            length = int(min(settings.run.block_seconds / (now - before) * length, total))
    return state, time.monotonic() - started


def _initial(this: TrainingRun) -> State:
    return this.population.init(
        keys_for(this.settings.run.seed, Purpose.TRAINING, this.settings.seeds)
    )


def _log(
    this: TrainingRun, curves: Any, logged: int, known: int, since: float, until: float
) -> None:
    """Log the points of the learning curves from `logged` to `known`."""
    if known == logged:
        return
    config, population = this.settings.train, this.population
    episodes, metrics = jax.tree.map(lambda leaf: leaf[:, logged:known], curves)
    returns = training_report.returns(episodes)
    mean, low, high = mean_curve(returns)
    ends = np.minimum(np.arange(logged + 1, known + 1) * population.log_every, config.num_updates)
    lengths = np.diff(ends, prepend=logged * population.log_every)
    diverged = ~np.all([np.isfinite(leaf) for leaf in metrics.values()], axis=0)
    with warnings.catch_warnings():  # all agents diverged: there is no mean
        warnings.simplefilter("ignore", RuntimeWarning)
        means = {
            key: np.nanmean(np.where(diverged, np.nan, leaf), axis=0) / lengths
            for key, leaf in metrics.items()
        }
    for index, end in enumerate(ends.tolist()):
        record = {
            "kind": "update",
            "update": end - 1,
            "frames": end * config.frames_per_update * this.settings.seeds,
            "seconds": round(since + (until - since) * (index + 1) / len(ends), 3),
            "episodes": int(episodes.episodes[:, index].sum()),
            "mean_return": mean[index],
            "low": low[index],
            "high": high[index],
            "returns": returns[:, index],  # of every seed: a run is compared before it ends
            "diverged": int(diverged[:, index].sum()),
            **{key: values[index] for key, values in means.items()},
        }
        this.run.append_metrics(record)
        this.tracker.log(record)


def _show(bar: Any, this: TrainingRun, curves: Any, length: int, elapsed: float) -> None:
    bar.update(length)
    per_update = this.settings.train.frames_per_update * this.settings.seeds
    returns = training_report.returns(curves[0])
    finished = np.flatnonzero(np.isfinite(returns).any(axis=0))
    latest = np.nanmean(returns[:, finished[-1]]) if len(finished) else np.nan
    bar.set_postfix_str(
        f"return {latest:.4g}, {bar.n * per_update:,} frames, "
        f"{length * per_update / elapsed:,.0f} frames/s"
    )


def _save(this: TrainingRun, state: State, done: int, seconds: float) -> None:
    this.run.sync()
    checkpoint.save(
        this.run.checkpoints,
        done,
        this.population.rows(state),
        metadata={"run_id": this.run_id, "seconds": seconds},
        keep=this.settings.run.keep_checkpoints,
    )


def _restore(this: TrainingRun) -> tuple[State, int, float] | None:
    """Return the last checkpoint's state and forget what was logged after it."""
    if checkpoint.is_empty(this.run.checkpoints) and not this.run.read_metrics("update"):
        return None  # killed before the first checkpoint: begin again
    found = checkpoint.restore(
        this.run.checkpoints, this.population.template, expected={"run_id": this.run_id}
    )
    this.run.truncate_metrics("update", found.index - 1)
    return this.population.place(found.tree), found.index, float(found.metadata["seconds"])
