"""One sweep from its settings to its report: start, resume, stop, join, and what is written."""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, to_dict
from metaevo.runs import schema
from metaevo.runs.files import read_json, write_json_atomic
from metaevo.runs.progress import Progress
from metaevo.runs.quick import mark
from metaevo.runs.run import Kind, Run, living
from metaevo.runs.run_directory import RunDirectory
from metaevo.sweep import results
from metaevo.sweep.evolutions import Evolutions
from metaevo.sweep.plan import Plan, make_plan, trials_of
from metaevo.sweep.population_based import PopulationBased, replay
from metaevo.sweep.report import write_sweep_report
from metaevo.sweep.settings import SearchSettings
from metaevo.sweep.trainings import FullTraining, Halving, Trainings
from metaevo.sweep.trials import AnyTrials, Executor, Outcome, Watch, plain_scores
from metaevo.tuning.space import dotted_space, make_space
from metaevo.tuning.study import Record, Study, Trial

EXPERIMENT = "sweep"
HARMLESS = (
    "run.wandb", "run.mlflow", "run.track_", "run.num_devices", "run.chunk_size",
    "sweep.confirm_seeds", "sweep.batch",
)  # fmt: skip
"""Settings that a resumed sweep may change."""
POLL_SECONDS = 2.0
"""between two looks at what other workers do"""
CONFIRMATION = "confirmation.json"
SCHEDULE = "best member's schedule"
BEFORE = "settings before the sweep"


KIND = Kind(EXPERIMENT, EXPERIMENT, "trial", HARMLESS)


@dataclass
class SweepRun:
    """The parts of one sweep, built from its settings."""

    run: Run[SearchSettings]
    trials: AnyTrials
    plan: Plan
    study: Study
    curves: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """learning curves of trials that are not logged yet"""
    logged: set[int] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)


def make_trials(settings: SearchSettings) -> AnyTrials:
    """Return what the trials of a sweep are.

    Raises:
        ConfigError: for a space that cannot be searched.
    """
    space = make_space(dotted_space(settings.space), type(settings), to_dict(settings))
    return trials_of(settings, space)


def run_sweep(
    settings: SearchSettings, *, run_dir: Path | None, resume: bool, worker: bool = False
) -> int:
    """Run a sweep to its end, or until a signal.

    Args:
        settings: of the sweep.
        run_dir: where to write; by default `runs/sweep/<timestamp>`.
        resume: continue the sweep in `run_dir`.
        worker: only train trials of the sweep in `run_dir`, which another process leads.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory, before compilation.
        DiskError: if the directory can no longer be written.
    """
    available, wanted = len(jax.devices()), settings.run.num_devices
    if wanted is not None and wanted > available:
        raise ConfigError(f"run.num_devices = {wanted}: there are {available} devices")
    if worker and settings.sweep.scheduler == "pbt":
        raise ConfigError("--worker: sweep.scheduler = 'pbt' trains its population in one process")
    trials = make_trials(settings)
    plan = make_plan(trials)
    continued = resume or worker
    with living(KIND, settings, run_dir=run_dir, resume=continued, exclusively=not worker) as run:
        if resume and _is_finished(run):
            print(f"{run.directory.path} is finished ({plan.trials} trials)")
            return 0
        this = _open(run, trials, plan, worker)
        with run.working():
            with this.study:
                _search(this, worker)
            if not worker:
                _finish(this)
        return run.exit_code


def _is_finished(run: Run[SearchSettings]) -> bool:
    """Whether nothing is left to do; another number of fresh seeds asks for another end."""
    assert run.before is not None
    same_end = run.before.sweep.confirm_seeds == run.settings.sweep.confirm_seeds
    return bool(run.directory.report_path.exists() and same_end)


def _open(run: Run[SearchSettings], trials: AnyTrials, plan: Plan, worker: bool) -> SweepRun:
    """Open the study; the process that leads it also writes what the run begins with."""
    directory, settings = run.directory, run.settings
    study = Study.open(
        directory.path,
        settings.sweep,
        trials.space,
        seed=settings.run.seed,
        name=directory.path.name,
    )
    if worker:
        return SweepRun(run, trials, plan, study)
    logged = _logged(directory)
    if lost := logged - {record.number for record in study.records()}:
        raise ConfigError(
            f"the study has no trial {min(lost)}, which {directory.metrics_path} has: "
            "was its storage changed or removed?"
        )
    run.forget_end()
    run.start(run.resolved)
    return SweepRun(run, trials, plan, study, logged=logged)


def _logged(run: RunDirectory) -> set[int]:
    """Return the trials in metrics.jsonl; from a duplicate on, all are logged again."""
    found = [record["trial"] for record in run.read_metrics("trial")]
    once = next((i for i, trial in enumerate(found) if trial in found[:i]), len(found))
    run.truncate_metrics("trial", once)
    return set(found[:once])


def _executor(trials: AnyTrials, run: RunDirectory) -> Executor:
    if isinstance(trials, Evolutions):
        return trials
    assert isinstance(trials, Trainings)
    if trials.config.scheduler in ("successive_halving", "hyperband"):
        return Halving(trials)
    if trials.config.scheduler == "pbt":
        return PopulationBased(trials, run)
    return FullTraining(trials)


def _search(this: SweepRun, worker: bool) -> None:
    """Train trials until none is left, and wait for those of other workers."""
    executor, plan, study = _executor(this.trials, this.run.directory), this.plan, this.study
    print(
        f"{this.run.directory.path}: {plan.trials} trials x {this.run.settings.sweep.seeds} seeds, "
        f"compilations to expect: {plan.compilations()}",
        file=sys.stderr,
    )
    for reason in plan.invalid:
        print(f"warning: trials of a static combination will fail: {reason}", file=sys.stderr)
    done = sum(record.attributes.get("frames", 0) for record in study.records())
    with Progress(
        total=max(plan.search_frames, done), initial=done, desc="searching", unit="frame",
        unit_scale=True,
    ) as bar:  # fmt: skip
        watch = _watch(this, bar, worker)
        while True:
            this.run.check_stop()
            if not worker:
                _log(this)
            batch = _next_batch(study, executor)
            if batch:
                executor.run(batch, watch)
            elif study.running():
                bar.stage(f"waiting for {study.running()} trials of other workers")
                time.sleep(POLL_SECONDS)
            else:
                break
    if not worker:
        _log(this)


def _next_batch(study: Study, executor: Executor) -> list[Trial]:
    first = study.ask(1)
    if not first:
        return []
    size = executor.batch_size(first[0].index, study.remaining() + 1)
    return first + (study.ask(size - 1) if size > 1 else [])


def _watch(this: SweepRun, bar: Any, worker: bool) -> Watch:
    known = this.study.best()
    best = [] if known is None else [(known.value or 0.0, -known.number)]

    def done(trial: Trial, outcome: Outcome) -> None:
        attributes = outcome.attributes | {"seconds": round(time.monotonic() - this.started, 3)}
        if outcome.curve is not None and not worker:  # who logs nothing
            this.curves[trial.number] = outcome.curve
        this.study.tell(trial, outcome.value, outcome=outcome.outcome, attributes=attributes)
        if outcome.outcome == "complete" and outcome.value is not None:
            best.append((outcome.value, -trial.number))
            best[:] = [max(best)]  # to ask the study would take as long as all trials before
            bar.set_postfix_str(f"best {best[0][0]:.4g} (trial {-best[0][1]})", refresh=False)

    def progress(frames: int) -> None:
        bar.update(frames)
        this.run.check_stop()

    def group(number: int, count: int, name: str) -> None:
        text = f"group {number + 1}/{count}" if count > 1 else "searching"
        bar.stage(f"{text}: {name}" if name else text)

    return Watch(done, this.study.report, progress, group)


def _log(this: SweepRun) -> None:
    """Log the trials that were decided since the last time, by any worker."""
    records = this.study.records()
    frames = sum(each.attributes.get("frames", 0) for each in records if each.number in this.logged)
    for record in records:
        if record.number in this.logged:
            continue
        frames += record.attributes.get("frames", 0)
        line = {
            "kind": "trial",
            "trial": record.number,
            "frames": frames,
            "seconds": round(time.monotonic() - this.started, 3),
            "value": record.value,
            "outcome": record.outcome,
            "params": record.params,
            "scores": record.attributes.get("scores"),
            "fraction": record.attributes.get("fraction"),
        }
        this.run.log(line)
        this.logged.add(record.number)
        _track_trial(this, record)


def _track_trial(this: SweepRun, record: Record) -> None:
    """Mirror a trial as a run of its own, with its learning curve where this process trained it."""
    child = this.run.tracker.child(f"trial_{record.number:04d}", "trial", record.params)
    curve = this.curves.pop(record.number, None)
    if curve is not None:
        steps, returns = curve
        known = np.isfinite(returns)
        means = np.where(known, returns, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        for index in np.flatnonzero(known.any(axis=0)).tolist():
            child.log(
                {
                    "kind": "update",
                    "update": index,
                    "frames": int(steps[index]),
                    "mean_return": float(means[index]),
                }
            )
    child.log({"kind": "trial", "trial": record.number, "value": record.value})
    child.finish()


def _finish(this: SweepRun) -> None:
    """Confirm the winner on fresh seeds, and write table, settings, figures and report."""
    run, trials, records = this.run.directory, this.trials, this.study.records()
    results.write_trials(run, trials, records)
    best = this.study.best()
    if best is None:
        raise ConfigError(
            f"no trial of {len(records)} ended with a score: see {run.path / results.TRIALS}"
        )
    frames = sum(record.attributes.get("frames", 0) for record in records)
    results.write_best(run, trials, _best_params(best), _comment(this, best))
    if this.run.settings.sweep.confirm_seeds:
        _confirm(this, best, frames)
    write_sweep_report(run, trials, this.study, this.plan)
    for path in (run.report_path, run.path / results.TRIALS, run.path / results.BEST, run.figures):
        this.run.tracker.log_artifact(path)
    print(f"best settings: {run.path / results.BEST}\nreport: {run.report_path}")


def _best_params(best: Record) -> dict[str, Any]:
    """Of a member of a population, the settings that it ended with."""
    return dict(best.attributes.get("final", best.params))


def _variants(this: SweepRun, best: Record) -> dict[str, dict[str, Any]]:
    """Return what is trained on fresh seeds: names, and the settings of each."""
    if this.run.settings.sweep.scheduler != "pbt":
        return {"best trial": best.params, BEFORE: {}}
    final = _best_params(best)
    return {SCHEDULE: final, "its last settings all the time": final, BEFORE: {}}


def _comment(this: SweepRun, best: Record) -> str:
    names = ", ".join(this.trials.space.distributions)
    config = this.run.settings.sweep
    what = f"Trial {best.number}, the best of a sweep over {names}."
    if config.scheduler == "pbt" or best.value is None:  # it was judged by its last round
        return what
    statistic = (
        f"quantile {config.quantile:g}" if config.statistic == "quantile" else config.statistic
    )
    return f"{what} Its objective: {best.value:.6g} ({statistic} of {config.seeds} seeds' fitness)."


def _confirm(this: SweepRun, best: Record, search_frames: int) -> None:
    """Train the winner, and the settings before the sweep, on seeds that the search never saw."""
    run, trials, seeds = this.run.directory, this.trials, this.run.settings.sweep.confirm_seeds
    settings = _variants(this, best)
    kept = run.path / CONFIRMATION
    key = [best.number, seeds]
    known = read_json(kept, schema.Scores) if kept.exists() else {}
    if known.get("key") != key or any(len(each) != seeds for each in known["scores"].values()):
        known = {"key": key, "scores": {}}
    diverged = known.setdefault("diverged", {})  # which earlier versions did not count
    missing = [name for name in settings if not (name in diverged and name in known["scores"])]
    frames = seeds * trials.frames(trials.settings_of(best.params))
    total = len(missing) * frames
    with Progress(total=total, desc="confirming", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            this.run.check_stop()

        for name in missing:
            if name == SCHEDULE:
                assert isinstance(trials, Trainings)
                scores, diverged[name] = replay(trials, run, seeds, progress)
            else:
                ((scores, diverged[name]),) = trials.confirm([settings[name]], seeds, progress)
            known["scores"][name] = plain_scores(scores)
            write_json_atomic(kept, known)  # an interrupted end continues here
    found = {
        name: np.array([np.nan if score is None else score for score in known["scores"][name]])
        for name in settings
    }
    result = results.confirmation(found, diverged, settings, best, search_frames)
    result |= mark(to_dict(this.run.settings))
    write_json_atomic(run.evaluation_path, result)
    rows = result["variants"]
    spent = [search_frames + (index + 1) * frames for index in range(len(rows))]
    this.run.log_evaluation(rows, spent, time.monotonic() - this.started)
