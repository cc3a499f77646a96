"""A training run in a directory: any learner in any environment, many agents side by side.

The host only starts blocks of updates; between two blocks it logs, saves and reacts to signals.
"""

import functools
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config.plain import PlainDict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts import channels, learners, resolve
from metaevo.runs import checkpoint
from metaevo.runs.progress import Progress
from metaevo.runs.run import Kind, Run, open_run
from metaevo.runs.signals import StopRequestedError
from metaevo.statistics import mean_curve
from metaevo.tasks.agents import Row
from metaevo.tasks.bound import Bound
from metaevo.tasks.fitness import all_finite, mean_returns
from metaevo.tasks.population import Population
from metaevo.training import report as training_report
from metaevo.training.result import check_resources, population_of, result_of
from metaevo.training.settings import TrainSettings, make_task

HARMLESS = (
    "evaluation.", "fitness.", "run.block_seconds", "run.checkpoint_seconds",
    "run.keep_checkpoints", "run.num_devices", "run.wandb", "run.mlflow", "run.track",
)  # fmt: skip
"""Settings that a resumed run may change."""
KIND = Kind("train", "train", "update", HARMLESS)


def run_training(settings: TrainSettings, *, run_dir: Path | None, resume: bool) -> int:
    """Train to the end, or until a signal.

    Args:
        settings: settings of the run.
        run_dir: where to write; by default `runs/train/<timestamp>`.
        resume: continue the run in `run_dir` from its last checkpoint.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory, before compilation.
        DiskError: if the directory can no longer be written.
    """
    task, meta_params = make_task(settings, run_dir if resume else None)
    training_report.check(settings, task)
    check_resources(settings, task, meta_params)
    with open_run(KIND, settings, run_dir=run_dir, resume=resume) as run:
        if run.before is not None:
            same_end = run.before.evaluation == settings.evaluation
            if run.directory.report_path.exists() and same_end:
                steps = settings.train.total_timesteps
                print(f"{run.directory.path} is finished ({steps} steps an agent)")
                return 0
        population = _start(run, task, meta_params)
        with run.working():
            chunks, seconds = _train(run, population)
            result = result_of(population, population.rows(chunks), run.directory.path)
            checkpoint.write(run.directory.policies, result.policies)
            episodes, _ = population.curves(chunks)
            training_report.finish(run, population, result, episodes, seconds=seconds)
        return run.exit_code


def _start(run: Run[TrainSettings], task: Bound, meta_params: PlainDict) -> Population:
    settings, resolved = run.settings, run.resolved
    # A resumed run keeps the settings that were resolved at its start.
    chunk_size = resolved.get("chunk_size", settings.run.chunk_size)
    population = population_of(settings, task, meta_params, chunk_size)
    before = resolved.get("num_devices", population.num_devices)
    if before != population.num_devices:
        warnings.warn(
            f"the run began on {before} devices and goes on with {population.num_devices}: results "
            "may agree up to rounding only",
            stacklevel=2,
        )
    for slot in learners.find(settings.learner).slots:
        resolve.keep(run.directory.path, slot, getattr(settings, slot.name))
    channels.keep(run.directory.path, settings.channel)
    run.start(
        {
            **resolved,
            "chunk_size": population.chunk_size,
            "num_devices": before,
            "log_every": population.windows.every,
        }
    )
    return population


def _train(run: Run[TrainSettings], population: Population) -> tuple[list[Row], float]:
    """Run the updates that are missing; return the final agents and the seconds it took in all."""
    settings, total = run.settings, run.settings.train.num_updates
    restored = run.restore(population.template, functools.partial(_logged, run, population))
    done, seconds = (restored.done, restored.seconds) if restored else (0, 0.0)
    keys = keys_for(settings.run.seed, Purpose.TRAINING, settings.seeds)
    chunks = population.place(restored.tree if restored else population.init(keys).rows)
    every, points = population.windows.every, population.windows.count
    logged = done // every if done < total else points
    saved = started = time.monotonic()
    started -= seconds
    print(
        f"{run.directory.path}: {settings.seeds} agents on {population.num_devices} devices, "
        f"{population.chunk_size} at once on each",
        file=sys.stderr,
    )
    if not done:  # so that a checkpoint precedes all records
        run.save(0, population.rows(chunks), 0.0)
    run.check_stop()  # before it compiles
    with Progress(total=total, initial=done, desc="compiling", unit="update") as bar:
        if done < total:
            chunks = jax.block_until_ready(population.run(chunks, done, 0))
            run.check_stop()
        bar.stage("training")
        length = 1
        while done < total:
            length = max(1, min(length, total - done))
            before = time.monotonic()
            chunks = population.run(chunks, done, length)
            curves = population.curves(chunks)
            now = time.monotonic()
            done += length
            known = points if done == total else done // every
            _log(run, population, curves, logged, known, before - started, now - started)
            logged = known
            _show(bar, settings, curves, length, now - before)
            due = now - saved >= settings.run.checkpoint_seconds or done == total
            stopping = run.stop.requested  # read once: no run stops without a checkpoint
            if due or stopping:
                run.save(done, population.rows(chunks), now - started)
                saved = now
            if stopping:
                raise StopRequestedError
            length = int(min(settings.run.block_seconds / (now - before) * length, total))
    return chunks, time.monotonic() - started


def _log(
    run: Run[TrainSettings],
    population: Population,
    curves: Any,
    logged: int,
    known: int,
    since: float,
    until: float,
) -> None:
    if known == logged:
        return
    config = run.settings.train
    episodes, metrics = jax.tree.map(lambda leaf: leaf[:, logged:known], curves)
    returns = mean_returns(episodes)
    mean, low, high = mean_curve(returns)
    ends = population.windows.ends()[logged:known]
    lengths = np.diff(ends, prepend=logged * population.windows.every)
    diverged = ~all_finite(metrics, axes=2)  # in this stretch: parameters of then are not known
    with warnings.catch_warnings():  # without a mean, as all agents have diverged
        warnings.simplefilter("ignore", RuntimeWarning)
        means = {
            key: np.nanmean(np.where(diverged, np.nan, leaf), axis=0) / lengths
            for key, leaf in metrics.items()
        }
    for index, end in enumerate(ends.tolist()):
        record = {
            "kind": "update",
            "update": end - 1,
            "frames": end * config.frames_per_update * run.settings.seeds,
            "seconds": round(since + (until - since) * (index + 1) / len(ends), 3),
            "episodes": int(episodes.episodes[:, index].sum()),
            "mean_return": mean[index],
            "low": low[index],
            "high": high[index],
            "returns": returns[:, index],  # of every seed: a run is compared before it ends
            "diverged": int(diverged[:, index].sum()),
            **{key: values[index] for key, values in means.items()},
        }
        run.log(record)


def _show(bar: Any, settings: TrainSettings, curves: Any, length: int, elapsed: float) -> None:
    per_update = settings.train.frames_per_update * settings.seeds
    returns = mean_returns(curves[0])
    finished = np.flatnonzero(np.isfinite(returns).any(axis=0))
    latest = np.nanmean(returns[:, finished[-1]]) if len(finished) else np.nan
    bar.set_postfix_str(
        f"return {latest:.4g}, {(bar.n + length) * per_update:,} frames, "
        f"{length * per_update / elapsed:,.0f} frames/s",
        refresh=False,
    )
    bar.update(length)


def _logged(run: Run[TrainSettings], population: Population, done: int) -> Iterator[int]:
    """Yield the indices of the records that are logged before a checkpoint."""
    every, total = population.windows.every, run.settings.train.num_updates
    yield from range(every - 1, done, every)
    if done >= total and total % every:  # the last point is shorter
        yield total - 1
