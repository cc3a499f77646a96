"""A sweep from its first trial to its results, with or without a run directory."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, PlainDict, dump_yaml
from metaevo.config.files import read_json, write_atomic, write_json_atomic
from metaevo.reports.page import Table
from metaevo.runs.resume import forget_end
from metaevo.runs.run import Kind, Run, open_run
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.terminal import Progress
from metaevo.tuning import results
from metaevo.tuning.config import SweepSettings
from metaevo.tuning.objective import Objective
from metaevo.tuning.report import write_sweep_report
from metaevo.tuning.results import SweepResult
from metaevo.tuning.samplers import num_trials
from metaevo.tuning.study import Study, best_of

HARMLESS = (
    "run.num_devices", "run.chunk_size", "seeds", "evolution.num_devices", "evolution.chunk_size",
    "sweep.confirm_seeds", "sweep.batch",
)  # fmt: skip
"""Settings that a resumed sweep may change, too."""
POLL_SECONDS = 2.0
"""between two looks at the other processes"""
KIND = Kind("sweep", "sweep", HARMLESS)


def search(
    objective: Objective[Any],
    study: Study,
    bar: Progress,
    between: Callable[[], object] = lambda: None,
) -> None:
    """Evaluate trials until there are enough, and wait for those of other processes.

    `between` is called after each batch, also after one that fails.
    """
    with study:
        while True:
            bar.update(0)  # a signal may have arrived
            try:
                if batch := study.ask(objective.config.batch or objective.kind.batch):
                    objective.run(batch, study, bar)
                elif count := study.running():
                    bar.stage(f"waiting for {count} trials of other processes")
                    time.sleep(POLL_SECONDS)
                else:
                    return
            finally:
                between()


def plan(objective: Objective[Any]) -> Table:
    """Return what a sweep would compute, at most; raises `ConfigError` as `run_sweep` does."""
    program, config = objective.start(), objective.config
    trials = num_trials(config, objective.space)
    rows = [
        ["trials", f"{trials:,} of {config.seeds} seeds, by {config.sampler}"],
        ["at once", f"{config.batch or program.batch}"],
        ["frames of the search", f"{trials * config.seeds * program.frames:,}"],
        ["frames of the confirmation", f"{2 * config.confirm_seeds * program.frames:,}"],
    ]
    return Table("Plan", ["", ""], rows, note=f"Searched: {', '.join(objective.space)}")


def run_sweep(
    objective: Objective[Any], settings: SweepSettings, *, run_dir: Path | None, resume: bool
) -> int:
    """Run a sweep in a directory to its end, or until a signal.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: before compilation, if the settings or the directory are invalid.
        DiskError: if the directory can no longer be written.
    """
    program, config, started = objective.start(), objective.config, time.monotonic()
    trials = num_trials(config, objective.space)
    with open_run(KIND, settings, run_dir=run_dir, resume=resume) as run:
        path = run.directory.path
        if run.is_over("sweep.confirm_seeds"):  # else it needs another confirmation
            print(f"{path} is finished ({trials} trials)")
            return 0
        study = Study(path, settings.sweep, objective.space, seed=settings.run.seed)
        logged = _log(run, study, started)
        forget_end(run.directory)
        run.start(run.resolved)
        print(f"{path}: {trials} trials x {config.seeds} seeds", file=sys.stderr)
        agents = trials * config.seeds + 2 * config.confirm_seeds
        work, unit = program.work
        done = logged if program.frames else len(study.trials()) * config.seeds * work
        with Progress(
            total=agents * work, initial=done, desc="searching", unit=unit,
            unit_scale=True, check_stop=run.stop.check,
        ) as bar:  # fmt: skip
            search(objective, study, bar, lambda: _log(run, study, started))
            confirmed = _confirm(run, objective, study, started, bar)
        write_sweep_report(run.directory, objective, study, confirmed)
        print(f"best settings: {path / results.BEST}")
    return run.stop.exit_code


def result_of(objective: Objective[Any], seed: int, path: Path | None) -> SweepResult:
    """Return the result of the sweep in a directory; without one, search in memory."""
    study = Study(path, objective.config, objective.space, seed=seed)
    if path is None:
        search(objective, study, Progress(disable=True))
    trials, shares = tuple(study.trials()), results.importance(study.optuna_study)
    best = best_of(list(trials))
    value = best.value if best else None
    if best and objective.config.confirm_seeds:
        saved = path and read_json(RunDirectory(path).evaluation_path, dict)
        value = (saved or results.confirmation(objective, best, lambda _: None))["value"]
    return SweepResult(value, best, trials, shares, objective.space, path)


def _log(run: Run[SweepSettings], study: Study, started: float) -> int:
    """Log the trials that any process has decided since the last time.

    Returns:
        environment steps of all trials.

    Raises:
        ConfigError: if the study lacks a trial that is logged.
    """
    logged = {record["trial"] for record in run.directory.read_metrics("trial")}
    trials = {trial.number: trial for trial in study.trials()}
    if lost := logged - trials.keys():
        raise ConfigError(
            f"the study has no trial {min(lost)}, which {run.directory.metrics_path} has: "
            "was its storage changed or removed?"
        )
    frames = sum(trials[number].frames for number in logged)
    for number in sorted(trials.keys() - logged):
        trial = trials[number]
        frames += trial.frames
        record = {"kind": "trial", "trial": number, "value": trial.value, "frames": frames}
        record |= {"seconds": round(time.monotonic() - started, 3), "outcome": trial.outcome}
        run.log(record | {"params": trial.params, "scores": trial.scores})
    if len(trials) > len(logged):
        path = run.directory.path / results.TRIALS
        results.write_table(path, list(trials.values()), study.space)
    return frames


def _confirm(
    run: Run[SweepSettings], objective: Objective[Any], study: Study, started: float, bar: Progress
) -> PlainDict | None:
    """Confirm the winner on fresh seeds, and write its settings.

    Returns:
        the content of evaluation.json, if there are fresh seeds.
    """
    frames, trials = _log(run, study, started), study.trials()
    directory, config = run.directory, objective.config
    best, confirmed = best_of(trials), None
    if best is None:
        table = directory.path / results.TRIALS
        raise ConfigError(f"no trial of {len(trials)} ended with a score: see {table}")
    found = f"{best.value:.6g} ({config.statistic} of {config.seeds} seeds' fitness) in the search"
    if config.confirm_seeds:
        bar.stage("confirming")
        confirmed = results.confirmation(objective, best, bar.update)
        write_json_atomic(directory.evaluation_path, confirmed)
        rows = confirmed["variants"]
        spent = [frames + rows[0]["frames"], frames + rows[0]["frames"] + rows[1]["frames"]]
        run.log_evaluation(rows, spent, time.monotonic() - started)
        found = f"{confirmed['value']:.6g} on {config.confirm_seeds} fresh seeds, {found}"
    names = ", ".join(objective.space)
    comment = f"Trial {best.number}, the best of a sweep over {names}. Its objective: {found}."
    settings = dump_yaml(objective.config_of(best.params))
    write_atomic(directory.path / results.BEST, f"# {comment}\n{settings}")
    return confirmed
