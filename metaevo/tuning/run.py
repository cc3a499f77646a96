"""A sweep from its first trial to its results, with or without a run directory."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, dump_yaml, to_dict
from metaevo.config.files import write_json_atomic, write_text_atomic
from metaevo.runs.progress import Progress
from metaevo.runs.quick import mark
from metaevo.runs.run import Kind, Run, open_run
from metaevo.tuning import results
from metaevo.tuning.config import SweepSettings
from metaevo.tuning.objective import Objective
from metaevo.tuning.report import write_sweep_report
from metaevo.tuning.samplers import num_trials
from metaevo.tuning.study import Study, best_of

HARMLESS = (
    "run.wandb", "run.mlflow", "run.track_", "run.num_devices", "run.chunk_size", "seeds",
    "evaluation.", "evolution.num_devices", "evolution.chunk_size", "sweep.confirm_seeds",
    "sweep.batch",
)  # fmt: skip
"""Settings that a resumed sweep may change."""
POLL_SECONDS = 2.0
"""between two looks at the other processes"""
KIND = Kind("sweep", "sweep", "trial", HARMLESS)


def search(
    objective: Objective[Any],
    study: Study,
    bar: Progress,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Evaluate trials until there are enough, and wait for those of other processes.

    `between` is called before each batch.
    """
    with study:
        while True:
            bar.update(0)  # a signal may have arrived
            between()
            if batch := study.ask(objective.config.batch or objective.batch):
                objective.run(batch, study, bar)
            elif count := study.running():
                bar.stage(f"waiting for {count} trials of other processes")
                time.sleep(POLL_SECONDS)
            else:
                return


def run_sweep(
    objective: Objective[Any], settings: SweepSettings, *, run_dir: Path | None, resume: bool
) -> int:
    """Run a sweep in a directory to its end, or until a signal.

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
    program, config = objective.start(), objective.config
    trials = num_trials(config, objective.space)
    with open_run(KIND, settings, run_dir=run_dir, resume=resume) as run:
        path = run.directory.path
        # Another number of fresh seeds needs another confirmation.
        same_end = run.before and run.before.sweep.confirm_seeds == settings.sweep.confirm_seeds
        if same_end and run.directory.report_path.exists():
            print(f"{path} is finished ({trials} trials)")
            return 0
        study = Study(path, settings.sweep, objective.space, seed=settings.run.seed)
        log = _Log(run, study)
        run.forget_end()
        run.start(run.resolved)
        print(f"{path}: {trials} trials x {config.seeds} seeds", file=sys.stderr)
        total = max(trials * config.seeds * program.frames, log.frames)
        with run.working():
            with _bar(run, "searching", total, log.frames) as bar:
                search(objective, study, bar, log.update)
            _finish(run, objective, study, log)
        return run.exit_code


class _Log:
    """The trials in metrics.jsonl."""

    def __init__(self, run: Run[SweepSettings], study: Study) -> None:
        """Begin with the trials that are logged; raise `ConfigError` if the study lacks one."""
        self.run, self.study, self.started = run, study, time.monotonic()
        self.numbers = {record["trial"] for record in run.directory.read_metrics("trial")}
        trials = study.trials()
        if lost := self.numbers - {trial.number for trial in trials}:
            raise ConfigError(
                f"the study has no trial {min(lost)}, which {run.directory.metrics_path} has: "
                "was its storage changed or removed?"
            )
        self.frames = sum(trial.frames for trial in trials if trial.number in self.numbers)

    def seconds(self) -> float:
        """Return the seconds since the process began."""
        return round(time.monotonic() - self.started, 3)

    def update(self) -> None:
        """Log the trials that any process has decided since the last time."""
        for trial in self.study.trials():
            if trial.number not in self.numbers:
                self.frames += trial.frames
                self.numbers.add(trial.number)
                record = {"kind": "trial", "trial": trial.number, "value": trial.value}
                record |= {"frames": self.frames, "seconds": self.seconds()}
                record |= {"outcome": trial.outcome, "params": trial.params}
                self.run.log(record | {"scores": trial.scores})


def _bar(run: Run[SweepSettings], name: str, frames: int, done: int = 0) -> Progress:
    return Progress(
        total=frames, initial=done, desc=name, unit="frame", unit_scale=True,
        check_stop=run.check_stop,
    )  # fmt: skip


def _finish(run: Run[SweepSettings], objective: Objective[Any], study: Study, log: _Log) -> None:
    """Write all trials and the winner, confirm it on fresh seeds, and write the report."""
    directory, config, trials = run.directory, objective.config, study.trials()
    table = directory.path / results.TRIALS
    write_text_atomic(table, results.csv_of(results.rows_of(trials, objective.space)))
    best = best_of(trials)
    if best is None:
        raise ConfigError(f"no trial of {len(trials)} ended with a score: see {table}")
    comment = (
        f"Trial {best.number}, the best of a sweep over {', '.join(objective.space.entries)}. "
        f"Its objective: {best.value:.6g} ({config.statistic} of {config.seeds} seeds' fitness)."
    )
    settings = dump_yaml(objective.config_of(best.params))
    write_text_atomic(directory.path / results.BEST, f"# {comment}\n{settings}")
    confirmed = None
    if config.confirm_seeds:
        program = objective.program(objective.settings_of(best.params))
        with _bar(run, "confirming", 2 * config.confirm_seeds * program.frames) as bar:
            confirmed = results.confirmation(objective, best, bar.update)
        write_json_atomic(directory.evaluation_path, confirmed | mark(to_dict(run.settings)))
        winner, before = (row["frames"] for row in confirmed["variants"])
        spent = [log.frames + winner, log.frames + winner + before]
        run.log_evaluation(confirmed["variants"], spent, log.seconds())
    write_sweep_report(directory, objective, study, confirmed)
    print(f"best settings: {directory.path / results.BEST}\nreport: {directory.report_path}")
