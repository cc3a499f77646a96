"""A finished evolution, judged again with other settings."""

import os
from collections.abc import Callable

from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.config.plain import PlainDict
from metaevo.runs.run import work_in
from metaevo.runs.run_directory import RunDirectory
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
