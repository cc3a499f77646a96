"""Judgements in a directory: of a finished evolution with other settings, or of a rule."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from metaevo.config import ConfigError, PlainDict, files, from_dict, to_dict
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.terminal import StopOnSignal, StopRequestedError
from metaevo.studies.settings import EvolutionSettings


def judge_in(
    run: RunDirectory,
    settings: EvolutionSettings,
    resolved: PlainDict,
    work: Callable[[Callable[[], None]], None],
) -> int:
    """Judge the result of a run in the directory `run`, a folder of it; return the exit code.

    `resolved` is further content of the directory's config.yaml, and `work` that of `work_in`.

    Raises:
        ConfigError: if the directory holds results with other settings.
    """
    if os.path.lexists(run.config_path):
        other = from_dict(type(settings), run.read_config()["config"])
        if other.judged_on() != settings.judged_on():
            raise ConfigError(
                f"{run.path} holds the results of another task; name this one: --name"
            )

    def judge(check_stop: Callable[[], None]) -> None:
        run.write_config(to_dict(settings), resolved)
        work(check_stop)

    return work_in(run.path, run.figures.name, judge)


def work_in(folder: Path, subfolder: str, work: Callable[[Callable[[], None]], None]) -> int:
    """Lock a directory and work in it until the end or a signal; return the exit code.

    `work` is called with a function that raises `StopRequestedError` after a signal. The same
    command continues the work.
    """
    files.make_folder(folder / subfolder)
    hint = "the same command continues with what is done"
    with RunDirectory(folder).locked(hint), StopOnSignal(hint) as stop:
        print(f"results: {folder}", file=sys.stderr, flush=True)
        try:
            work(stop.check)
        except StopRequestedError:
            print(f"stopped; {hint}", file=sys.stderr)
        return stop.exit_code
