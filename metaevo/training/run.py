"""Training any learner in any environment, many agents side by side, and `metaevo.train`.

The host only starts blocks of updates; between two blocks it logs, saves and reacts to signals.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, PlainDict, PlainMapping, from_dict
from metaevo.evolution import devices
from metaevo.evolution.rows import collect
from metaevo.parts import learners, resolve
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run import Kind, Run, open_run
from metaevo.runs.terminal import Progress, StopRequestedError
from metaevo.statistics import mean_curve
from metaevo.tasks.agents import Row
from metaevo.tasks.fitness import all_finite, mean_returns
from metaevo.tasks.population import Population
from metaevo.training import report
from metaevo.training.result import (
    POLICIES,
    TrainingResult,
    load_training,
    result_of,
    with_policies,
)
from metaevo.training.settings import TrainSettings, training_class, with_task
from purerl.types import Environment, LearnerEntry

HARMLESS = (
    "fitness.mean_return", "fitness.final_return", "fitness.reward_per_step",
    "run.block_seconds", "run.checkpoint_seconds", "run.num_devices",
)  # fmt: skip
"""Settings that a resumed run may change, too."""
KIND = Kind("train", "train", HARMLESS)


def train(
    learner: str | LearnerEntry = "ppo",
    *,
    env: str | type | Environment = "CartPole-v1",
    env_params: PlainMapping | None = None,
    seeds: int = 8,
    seed: int = 0,
    run_dir: str | Path | None = None,
    resume: bool = False,
    **sections: Any,
) -> TrainingResult:
    """Train agents side by side on all devices, with hand-written or learned parts.

    Examples:
        >>> result = metaevo.train("ppo", env="CartPole-v1", hyperparams={"learning_rate": 3e-3})
        >>> result.scores.mean()
        >>> options = {"make_optimizer": "zoo:ppo-optimizer", "run_dir": "runs/zoo"}
        >>> metaevo.train("ppo", env="CartPole-v1", **options)
        >>> metaevo.train("ppo", env="CartPole-v1", value_loss=metaevo.load("runs/my_loss"))

    Args:
        learner: its name, such as ppo or `my_learner.py:NAME`, or a `LearnerEntry`.
        env: an environment's name, `my_env.py:Class` or `my_package:Class`, or a gymnax
            environment of your own, as a class or an object.
        env_params: overrides of its parameters.
        seeds: agents, which differ in their random keys only.
        seed: of all randomness.
        run_dir: where to keep checkpoints, metrics, policies and a report; by default nothing is
            written. A new directory, or with `resume` an existing run's directory; a finished run
            is only read.
        resume: continue from the last checkpoint.
        sections: of the settings, such as `train`, `hyperparams` and `fitness`, as dicts; and what
            fills a slot, such as `value_loss`: the name of a hand-written function, the directory
            of a run or a saved part, a part's file, `zoo:NAME`, or without a run_dir a part, a
            function, a pair of function and meta-parameters, as `metaevo.load` returns, or the
            result of `metaevo.evolve`.

    Raises:
        ConfigError: naming the key that is wrong, before compilation.
        KeyboardInterrupt: after SIGINT or SIGTERM, once everything is saved.
    """
    name = learners.name_of(learner)
    given = {"learner": name, "seeds": seeds, "env": env, "env_params": env_params}
    raw = with_task({**given, **sections})
    raw["run"] = {**sections.get("run", {}), "seed": seed}
    kind = training_class(raw)
    slots = [each.name for each in learners.find(name).slots]
    raw |= {slot: str(raw[slot]) for slot in slots if isinstance(raw.get(slot), Path)}
    functions = {slot: raw.pop(slot) for slot in slots if not isinstance(raw.get(slot, ""), str)}
    settings = from_dict(kind, raw)
    if run_dir is None:
        if resume:
            raise ConfigError("resume = True: needs run_dir, the directory of the run to continue")
        if "evaluation" in sections:
            raise ConfigError("evaluation: needs run_dir, because its results go to the report")
        population = _population(settings, given=functions)
        begun, total = population.start(seed), population.num_updates
        trained = population.blocks(begun, 0, total, settings.run.block_seconds)
        with Progress(total=total, desc="training", unit="update") as bar:
            for agents, length, _ in trained:  # noqa: B007 (used below)
                bar.update(length)
        return result_of(population, with_policies(population, population.rows(agents)))
    if functions:
        raise ConfigError(
            f"{', '.join(functions)}: with run_dir, give a name or a directory, because a run is "
            "resumed from files"
        )
    if run_training(settings, run_dir=Path(run_dir), resume=resume):
        raise KeyboardInterrupt
    return load_training(run_dir)


def plan(settings: TrainSettings) -> Table:
    """Return what a training would compute; raises `ConfigError` as `run_training` does."""
    population = _population(settings)
    report.check(settings, population.task)
    rows = [
        ["agents", f"{settings.seeds:,}"],
        ["at once", f"{population.chunk_size} on each of {population.num_devices} devices"],
        ["updates of each", f"{population.num_updates:,}"],
        ["frames of all", f"{settings.seeds * population.frames:,}"],
    ]
    return Table("Plan", ["", ""], rows)


def run_training(settings: TrainSettings, *, run_dir: Path | None, resume: bool) -> int:
    """Train in a directory to the end, or until a signal.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory, before compilation.
        DiskError: if the directory can no longer be written.
    """
    population = _population(settings, run_dir if resume else None)
    report.check(settings, population.task)
    with open_run(KIND, settings, run_dir=run_dir, resume=resume) as run:
        path = run.directory.path
        if run.is_over("evaluation.") and (path / POLICIES).exists():
            print(f"{path} is finished ({population.num_updates} updates)")
            return 0
        chunk_size = run.resolved.get("chunk_size", population.chunk_size)
        if chunk_size != population.chunk_size:  # a resumed run keeps the one of its start
            population = _population(settings, path, chunk_size=chunk_size)
        for slot in learners.find(settings.learner).slots:
            resolve.keep(path, slot, getattr(settings, slot.name))
        run.start(
            {**run.resolved, "log_every": population.windows.every},
            chunk_size=population.chunk_size,
            num_devices=population.num_devices,
        )
        rows, seconds = _train(run, population)
        rows = with_policies(population, rows)
        checkpoint.save_tree(path / POLICIES, rows)
        result = result_of(population, rows, path)
        report.finish(run, population, result, rows.episodes, seconds=seconds)
    return run.stop.exit_code


def _population(
    settings: TrainSettings, run_path: Path | None = None, **options: Any
) -> Population:
    """Return the agents of a training; raises `ConfigError` if devices or memory do not suffice."""
    devices.check_number("run.num_devices", settings.run.num_devices)
    population = settings.population(run_path, metrics=True, **options)
    kept, points = settings.seeds, population.windows.count
    at_once = min(settings.run.chunk_size or 1, kept)
    example = population.meta_params
    population.task.check_memory("seeds", example, kept=kept, at_once=at_once, points=points)
    return population


def _train(run: Run[TrainSettings], population: Population) -> tuple[Row, float]:
    """Run the updates that are missing; return the final agents and the seconds it took in all."""
    config, total, ends = run.settings.run, population.num_updates, population.windows.ends()
    agents = run.settings.seeds
    restored = run.restore(population.template)
    if restored is None:  # so that a checkpoint precedes all records
        chunks, done, seconds = population.start(config.seed), 0, 0.0
        run.save(0, population.rows(chunks), 0.0)
    else:
        tree, done, seconds = restored
        chunks = population.place(tree)
    print(f"run directory: {run.directory.path}", file=sys.stderr)
    saved = time.monotonic()
    started = saved - seconds
    run.stop.check()  # before it compiles
    with Progress(total=total, initial=done, desc="compiling", unit="update") as bar:
        trained = population.blocks(chunks, done, total, config.block_seconds)
        for chunks, length, seconds in trained:
            now, done = time.monotonic(), done + length
            bar.stage("training")
            curves = [each.replace(agent=None) for each in chunks]  # whose states are large
            kept = collect(curves, population.agents)
            points = np.flatnonzero((ends > done - length) & (ends <= done))
            for place, record in enumerate(_records(population, kept, points), 1):
                moment = now - seconds * (1 - place / len(points))
                run.log({**record, "seconds": round(moment - started, 3)})
            if length:
                frames = agents * population.frames_after(done)
                rate = (frames - agents * population.frames_after(done - length)) / seconds
                _show(bar, mean_returns(kept.episodes), frames, rate)
            bar.update(length)
            due = length > 0 and (now - saved >= config.checkpoint_seconds or done == total)
            stopping = run.stop.requested  # read once: no run stops without a checkpoint
            if due or stopping:
                run.save(done, population.rows(chunks), now - started)
                saved = now
            if stopping:
                raise StopRequestedError
    return population.rows(chunks), time.monotonic() - started


def _records(population: Population, rows: Row, points: np.ndarray) -> Iterator[PlainDict]:
    """Yield a record for each of some new points of the learning curves, without the time."""
    if not len(points):
        return
    sums = rows.episodes, rows.metrics
    episodes, metrics = jax.tree.map(lambda leaf: leaf[:, points], sums)
    evaluations = population.evaluation_curves(rows)
    returns, ends = mean_returns(episodes), population.windows.ends()
    mean, low, high = mean_curve(returns)
    lengths = np.diff(ends, prepend=0)[points]
    diverged = ~all_finite(metrics, axes=2)  # in this stretch: parameters of then are not known
    with warnings.catch_warnings():  # without a mean, as all agents have diverged
        warnings.simplefilter("ignore", RuntimeWarning)
        means = {
            key: np.nanmean(np.where(diverged, np.nan, leaf), axis=0) / lengths
            for key, leaf in metrics.items()
        }
    for index, end in enumerate(ends[points].tolist()):
        record = {
            "kind": "update",
            "update": end - 1,
            "frames": population.frames_after(end) * len(returns),
            "episodes": int(episodes.episodes[:, index].sum()),
            "mean_return": mean[index],
            "low": low[index],
            "high": high[index],
            "returns": returns[:, index],  # of every seed: a run is compared before it ends
            "diverged": int(diverged[:, index].sum()),
            **{key: values[index] for key, values in means.items()},
        }
        if evaluations is not None and not np.isnan(last := evaluations[:, points[index]]).all():
            record |= {"evaluation_return": np.nanmean(last), "evaluation_returns": last}
        yield record


def _show(bar: Progress, returns: np.ndarray, frames: int, rate: float) -> None:
    """Show the newest mean return [agents, points] and the environment steps of all agents."""
    finished = np.flatnonzero(np.isfinite(returns).any(axis=0))
    latest = np.nanmean(returns[:, finished[-1]]) if len(finished) else np.nan
    text = f"return {latest:.4g}, {frames:,} frames, {rate:,.0f} frames/s"
    bar.set_postfix_str(text, refresh=False)
