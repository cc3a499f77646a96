"""Judgements in a directory: of a finished evolution with other settings, or of a rule."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from metaevo.config import ConfigError, PlainDict, files, from_dict, to_dict
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.terminal import StopOnSignal, StopRequestedError
from metaevo.studies.problems import ProblemSettings
from metaevo.studies.settings import EvolutionSettings, EvolveSettings

if TYPE_CHECKING:
    from metaevo.judging.judge import Judgement


def free(settings: EvolutionSettings) -> tuple[str, ...]:
    """Return beginnings of the settings that a judgement of a finished run may change."""
    if isinstance(settings, ProblemSettings):
        return settings.problem_fields()
    return "task.", "train.", "hyperparams.", "fitness."


def judged_on(settings: EvolutionSettings) -> PlainDict:
    """Return the settings that scores depend on, except the budget and the space.

    Of a learner these are settings of agents, and the seed; of another problem its class, and the
    strategy, which has found the result.
    """
    names, more = ["problem", "strategy", *free(settings)], {}
    if isinstance(settings, EvolveSettings):
        slots = [slot.name for slot in settings.fixed_slots()]
        names = ["learner", "task", "tasks", "train", "hyperparams", "fitness", *slots]
        more = {"seed": settings.run.seed}
    everything = to_dict(settings)
    return {name: everything[name] for name in names} | more


def planned(judgements: "Mapping[str, Judgement]") -> list[list[str]]:
    """Return rows of a plan: the size of each judgement."""
    from metaevo.studies.study import TITLES

    rows = []
    for name, each in judgements.items():
        contenders, agents = len(each.contenders), each.budget.agents
        size = f"{contenders} contenders x {agents:,} agents on {len(each.tasks)} tasks"
        rows.append([TITLES.get(name, name), size])
    return rows


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
        if judged_on(other) != judged_on(settings):
            raise ConfigError(
                f"{run.path} holds the results of another task; name this one: --name"
            )

    def judge(check_stop: Callable[[], None]) -> None:
        run.write_config(to_dict(settings), resolved)
        work(check_stop)

    return work_in(run.path, judge)


def work_in(folder: Path, work: Callable[[Callable[[], None]], None]) -> int:
    """Lock a directory and work in it until the end or a signal; return the exit code.

    `work` is called with a function that raises `StopRequestedError` after a signal. The same
    command continues the work.
    """
    files.make_folder(folder)
    hint = "the same command continues with what is done"
    with RunDirectory(folder).locked(hint), StopOnSignal(hint) as stop:
        print(f"results: {folder}", file=sys.stderr, flush=True)
        try:
            work(stop.check)
        except StopRequestedError:
            print(f"stopped; {hint}", file=sys.stderr)
        return stop.exit_code
