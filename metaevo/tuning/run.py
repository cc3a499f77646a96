"""One sweep in a run directory: start, resume, stop, write."""

import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, dump_yaml, to_dict
from metaevo.config.files import write_json_atomic, write_text_atomic
from metaevo.evolution import devices
from metaevo.runs.progress import Progress
from metaevo.runs.quick import mark
from metaevo.runs.run import Kind, Run, open_run
from metaevo.tuning import results
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.objective import BEFORE, Objective, Plan, SettingsObjective, Watch
from metaevo.tuning.report import write_sweep_report
from metaevo.tuning.study import Outcome, Record, Study, Trial

HARMLESS = (
    "run.wandb", "run.mlflow", "run.track_", "run.num_devices", "run.chunk_size",
    "sweep.confirm_seeds", "sweep.batch",
)  # fmt: skip
"""Settings that a resumed sweep may change."""
POLL_SECONDS = 2.0
"""between two looks at the other processes"""
KIND = Kind("sweep", "sweep", "trial", HARMLESS)


@dataclass
class SweepRun:
    """The parts of one sweep, built from its settings."""

    run: Run[SearchSettings]
    objective: Objective
    plan: Plan
    study: Study
    logged: set[int]
    """numbers of the trials in metrics.jsonl"""
    started: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Return the seconds since the process began."""
        return round(time.monotonic() - self.started, 3)


def run_sweep(
    objective: Objective,
    settings: SearchSettings,
    *,
    run_dir: Path | None,
    resume: bool,
) -> int:
    """Run a sweep to its end, or until a signal.

    Args:
        objective: evaluates the trials.
        settings: of the sweep.
        run_dir: where to write; by default `runs/sweep/<timestamp>`.
        resume: continue the sweep in `run_dir`.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: before compilation, if the settings or the directory are invalid.
        DiskError: if the directory can no longer be written.
    """
    devices.check_number("run.num_devices", settings.run.num_devices)
    plan = objective.plan()
    with open_run(KIND, settings, run_dir=run_dir, resume=resume) as run:
        # Another number of fresh seeds needs another confirmation.
        same_end = run.before and run.before.sweep.confirm_seeds == settings.sweep.confirm_seeds
        if resume and same_end and run.directory.report_path.exists():
            print(f"{run.directory.path} is finished ({plan.trials} trials)")
            return 0
        path, space, seed = run.directory.path, objective.space, settings.run.seed
        study = Study(path, settings.sweep, space, seed=seed, name=path.name)
        logged = {record["trial"] for record in run.directory.read_metrics("trial")}
        this = SweepRun(run, objective, plan, study, logged)
        if lost := logged - {record.number for record in study.records()}:
            raise ConfigError(
                f"the study has no trial {min(lost)}, which {run.directory.metrics_path} has: "
                "was its storage changed or removed?"
            )
        run.forget_end()
        run.start(run.resolved)
        with run.working():
            with study:
                _search(this)
            _finish(this)
        return run.exit_code


def _search(this: SweepRun) -> None:
    """Train trials until there are enough, and wait for those of other processes."""
    run, objective, plan, study = this.run, this.objective, this.plan, this.study
    print(
        f"{run.directory.path}: {plan.trials} trials x {run.settings.sweep.seeds} seeds, "
        f"compilations to expect: {plan.compilations()}",
        file=sys.stderr,
    )
    for reason in plan.invalid:
        print(f"warning: trials of a static combination will fail: {reason}", file=sys.stderr)
    done = sum(record.frames for record in study.records())
    with Progress(
        total=max(plan.search_frames, done), initial=done, desc="searching", unit="frame",
        unit_scale=True, check_stop=run.check_stop,
    ) as bar:  # fmt: skip
        watch = _watch(this, bar)
        while True:
            run.check_stop()
            _log(this)
            if batch := study.ask(objective.batch_size()):
                objective.run(batch, watch)
            elif count := study.running():
                bar.stage(f"waiting for {count} trials of other processes")
                time.sleep(POLL_SECONDS)
            else:
                break
    _log(this)


def search(objective: Objective, study: Study) -> None:
    """Evaluate all trials of a study without a run directory."""
    watch = Watch(study.tell, study.should_prune)
    with study:
        while batch := study.ask(objective.batch_size()):
            objective.run(batch, watch)


def _watch(this: SweepRun, bar: Progress) -> Watch:
    known = this.study.best()
    best = [] if known is None else [(known.value or 0.0, -known.number)]

    def done(trial: Trial, outcome: Outcome) -> None:
        this.study.tell(trial, replace(outcome, seconds=this.seconds()))
        if outcome.outcome == "complete" and outcome.value is not None:
            best.append((outcome.value, -trial.number))
            best[:] = [max(best)]  # `study.best` would read all earlier trials again
            bar.set_postfix_str(f"best {best[0][0]:.4g} (trial {-best[0][1]})", refresh=False)

    return Watch(done, this.study.should_prune, bar.update, bar.stage)


def _log(this: SweepRun) -> None:
    """Log the trials that any process has decided since the last time."""
    records = this.study.records()
    frames = sum(each.frames for each in records if each.number in this.logged)
    for record in records:
        if record.number in this.logged:
            continue
        frames += record.frames
        this.run.log(
            {
                "kind": "trial",
                "trial": record.number,
                "value": record.value,
                "frames": frames,
                "seconds": this.seconds(),
                "outcome": record.outcome,
                "params": record.params,
                "scores": record.scores,
                "fraction": record.fraction,
            }
        )
        this.logged.add(record.number)


def _finish(this: SweepRun) -> None:
    """Confirm the winner on fresh seeds, and write table, settings, figures and report."""
    run, objective, records = this.run.directory, this.objective, this.study.records()
    config = this.run.settings.sweep
    results.write_trials(run.path / results.TRIALS, objective.space, records, config.seeds)
    best = this.study.best()
    if best is None:
        raise ConfigError(
            f"no trial of {len(records)} ended with a score: see {run.path / results.TRIALS}"
        )
    names = ", ".join(objective.space.distributions)
    level = f" {config.quantile:g}" if config.statistic == "quantile" else ""
    comment = (
        f"Trial {best.number}, the best of a sweep over {names}. Its objective: {best.value:.6g} "
        f"({config.statistic}{level} of {config.seeds} seeds' fitness)."
    )
    for name, content in objective.configs(best.params).items():
        write_text_atomic(run.path / name, f"# {comment}\n{dump_yaml(content)}")
    if config.confirm_seeds and isinstance(objective, SettingsObjective):
        _confirm(this, objective, best, sum(record.frames for record in records))
    write_sweep_report(run, objective, this.study, this.plan)
    print(f"best settings: {run.path / results.BEST}\nreport: {run.report_path}")


def _confirm(
    this: SweepRun,
    objective: SettingsObjective[Any, Any],
    best: Record,
    search_frames: int,
) -> None:
    """Evaluate the winner and the settings before the sweep on seeds that no search has seen."""
    seeds = this.run.settings.sweep.confirm_seeds
    finalists = {"best trial": best.params, BEFORE: {}}
    frames = seeds * objective.seed_frames(objective.settings_of(best.params))
    scores, diverged = {}, {}
    with Progress(
        total=len(finalists) * frames, desc="confirming", unit="frame", unit_scale=True,
        check_stop=this.run.check_stop,
    ) as bar:  # fmt: skip
        watch = _watch(this, bar)
        for name, params in finalists.items():
            scores[name], diverged[name] = objective.confirm(params, seeds, watch)
    result = results.confirmation(scores, diverged, best, search_frames)
    result |= mark(to_dict(this.run.settings))
    write_json_atomic(this.run.directory.evaluation_path, result)
    rows = result["variants"]
    spent = [search_frames + (index + 1) * frames for index in range(len(rows))]
    this.run.log_evaluation(rows, spent, this.seconds())
