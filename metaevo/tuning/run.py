"""One sweep in a run directory: start, resume, stop, join, write."""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, to_dict
from metaevo.config.files import read_json, write_json_atomic
from metaevo.runs import schema
from metaevo.runs.progress import Progress
from metaevo.runs.quick import mark
from metaevo.runs.run import Kind, Run, open_run
from metaevo.runs.run_directory import RunDirectory
from metaevo.tuning import results
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.objective import Objective, Outcome, Plan, Watch, plain_scores
from metaevo.tuning.report import write_sweep_report
from metaevo.tuning.study import Record, Study, Trial

EXPERIMENT = "sweep"
HARMLESS = (
    "run.wandb", "run.mlflow", "run.track_", "run.num_devices", "run.chunk_size",
    "sweep.confirm_seeds", "sweep.batch",
)  # fmt: skip
"""Settings that a resumed sweep may change."""
POLL_SECONDS = 2.0
"""between two looks at the other workers"""
CONFIRMATION = "confirmation.json"


KIND = Kind(EXPERIMENT, EXPERIMENT, "trial", HARMLESS)


@dataclass
class SweepRun:
    """The parts of one sweep, built from its settings."""

    run: Run[SearchSettings]
    objective: Objective
    plan: Plan
    study: Study
    curves: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """learning curves of trials that are not logged yet"""
    logged: set[int] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)


def run_sweep(
    objective: Objective,
    settings: SearchSettings,
    *,
    run_dir: Path | None,
    resume: bool,
    worker: bool = False,
) -> int:
    """Run a sweep to its end, or until a signal.

    Args:
        objective: evaluates the trials.
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
    plan = objective.plan()
    continued = resume or worker
    with open_run(KIND, settings, run_dir=run_dir, resume=continued, exclusively=not worker) as run:
        if resume and _is_finished(run):
            print(f"{run.directory.path} is finished ({plan.trials} trials)")
            return 0
        this = _open(run, objective, plan, worker)
        with run.working():
            with this.study:
                _search(this, worker)
            if not worker:
                _finish(this)
        return run.exit_code


def _is_finished(run: Run[SearchSettings]) -> bool:
    """Whether the sweep is done; another number of fresh seeds needs another confirmation."""
    assert run.before is not None
    same_end = run.before.sweep.confirm_seeds == run.settings.sweep.confirm_seeds
    return bool(run.directory.report_path.exists() and same_end)


def _open(run: Run[SearchSettings], objective: Objective, plan: Plan, worker: bool) -> SweepRun:
    """Open the study; the leading process also begins the run's files."""
    directory, settings = run.directory, run.settings
    study = Study.open(
        directory.path,
        settings.sweep,
        objective.space,
        seed=settings.run.seed,
        name=directory.path.name,
    )
    if worker:
        return SweepRun(run, objective, plan, study)
    logged = _logged(directory)
    if lost := logged - {record.number for record in study.records()}:
        raise ConfigError(
            f"the study has no trial {min(lost)}, which {directory.metrics_path} has: "
            "was its storage changed or removed?"
        )
    run.forget_end()
    run.start(run.resolved)
    return SweepRun(run, objective, plan, study, logged=logged)


def _logged(run: RunDirectory) -> set[int]:
    """Return the trials in metrics.jsonl; from a duplicate on, all are logged again."""
    found = [record["trial"] for record in run.read_metrics("trial")]
    once = next((i for i, trial in enumerate(found) if trial in found[:i]), len(found))
    run.truncate_metrics("trial", once)
    return set(found[:once])


def _search(this: SweepRun, worker: bool) -> None:
    """Train trials until none is left, and wait for those of other workers."""
    objective, plan, study = this.objective, this.plan, this.study
    objective.begin(this.run.directory)
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
            batch = next_batch(study, objective)
            if batch:
                objective.run(batch, watch)
            elif study.running():
                bar.stage(f"waiting for {study.running()} trials of other workers")
                time.sleep(POLL_SECONDS)
            else:
                break
    if not worker:
        _log(this)


def next_batch(study: Study, objective: Objective) -> list[Trial]:
    """Return the trials that are evaluated together; none if the queue is empty."""
    first = study.ask(1)
    if not first:
        return []
    size = objective.batch_size(first[0].index, study.remaining() + 1)
    return first + (study.ask(size - 1) if size > 1 else [])


def search(objective: Objective, study: Study) -> None:
    """Evaluate all trials of a study without a run directory."""
    objective.begin(None)

    def done(trial: Trial, outcome: Outcome) -> None:
        study.tell(trial, outcome.value, outcome=outcome.outcome, attributes=outcome.attributes)

    watch = Watch(done, study.report, lambda frames: None, lambda *group: None)
    with study:
        while batch := next_batch(study, objective):
            objective.run(batch, watch)


def _watch(this: SweepRun, bar: Any, worker: bool) -> Watch:
    known = this.study.best()
    best = [] if known is None else [(known.value or 0.0, -known.number)]

    def done(trial: Trial, outcome: Outcome) -> None:
        attributes = outcome.attributes | {"seconds": round(time.monotonic() - this.started, 3)}
        if outcome.curve is not None and not worker:  # a worker logs no trials
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
    records: list[dict[str, Any]] = []
    curve = this.curves.pop(record.number, None)
    if curve is not None:
        steps, returns = curve
        known = np.isfinite(returns)
        means = np.where(known, returns, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        for index in np.flatnonzero(known.any(axis=0)).tolist():
            records.append(
                {
                    "kind": "update",
                    "update": index,
                    "frames": int(steps[index]),
                    "mean_return": float(means[index]),
                }
            )
    records.append({"kind": "trial", "trial": record.number, "value": record.value})
    this.run.tracker.log_child(f"trial_{record.number:04d}", "trial", record.params, records)


def _finish(this: SweepRun) -> None:
    """Confirm the winner on fresh seeds, and write table, settings, figures and report."""
    run, objective, records = this.run.directory, this.objective, this.study.records()
    config = this.run.settings.sweep
    results.write_trials(run, objective.space, records, config.seeds)
    best = this.study.best()
    if best is None:
        raise ConfigError(
            f"no trial of {len(records)} ended with a score: see {run.path / results.TRIALS}"
        )
    frames = sum(record.attributes.get("frames", 0) for record in records)
    configs = objective.configs(best.final_params)
    results.write_configs(run, configs, _comment(this, best))
    finalists = objective.finalists(best) if config.confirm_seeds else {}
    if finalists:
        _confirm(this, best, finalists, frames)
    write_sweep_report(run, objective, this.study, this.plan)
    print(f"best settings: {run.path / results.BEST}\nreport: {run.report_path}")


def _comment(this: SweepRun, best: Record) -> str:
    names = ", ".join(this.objective.space.distributions)
    config = this.run.settings.sweep
    what = f"Trial {best.number}, the best of a sweep over {names}."
    if config.scheduler == "pbt" or best.value is None:  # it was judged by its last round
        return what
    statistic = (
        f"quantile {config.quantile:g}" if config.statistic == "quantile" else config.statistic
    )
    return f"{what} Its objective: {best.value:.6g} ({statistic} of {config.seeds} seeds' fitness)."


def _confirm(
    this: SweepRun, best: Record, finalists: dict[str, dict[str, Any]], search_frames: int
) -> None:
    """Evaluate the winner, and the settings before the sweep, on seeds that no search has seen."""
    run, objective, seeds = (
        this.run.directory,
        this.objective,
        this.run.settings.sweep.confirm_seeds,
    )
    kept = run.path / CONFIRMATION
    key = [best.number, seeds]
    known = read_json(kept, schema.Scores) if kept.exists() else {}
    if known.get("key") != key or any(len(each) != seeds for each in known["scores"].values()):
        known = {"key": key, "scores": {}, "diverged": {}}
    scores, diverged = known["scores"], known["diverged"]
    missing = [name for name in finalists if name not in scores]
    frames = seeds * objective.frames(best.params)
    total = len(missing) * frames
    with Progress(total=total, desc="confirming", unit="frame", unit_scale=True) as bar:

        def progress(frames: int) -> None:
            bar.update(frames)
            this.run.check_stop()

        for name in missing:
            found, diverged[name] = objective.confirm(name, finalists[name], seeds, progress)
            scores[name] = plain_scores(found)
            write_json_atomic(kept, known)  # an interrupted end continues here
    arrays = {
        name: np.array([np.nan if score is None else score for score in scores[name]])
        for name in finalists
    }
    result = results.confirmation(arrays, diverged, finalists, best, search_frames)
    result |= mark(to_dict(this.run.settings))
    write_json_atomic(run.evaluation_path, result)
    rows = result["variants"]
    spent = [search_frames + (index + 1) * frames for index in range(len(rows))]
    this.run.log_evaluation(rows, spent, time.monotonic() - this.started)
