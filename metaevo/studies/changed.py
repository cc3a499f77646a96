"""Settings of a finished evolution, with the changes allowed for judging it again."""

import argparse
import os
from collections.abc import Callable

from metaevo.config import ConfigError, changed_keys, code, from_dict, merge, to_dict
from metaevo.config.command_line import Parser, parse_command_line
from metaevo.config.plain import PlainDict
from metaevo.runs.run import work_in
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import without_env_params
from metaevo.studies.settings import EvolutionSettings, settings_class

FREE = "evaluation.", "evolution.chunk_size"
"""Settings that may differ for every study, in addition to `EvolutionSettings.free`."""


def settings_of_run(
    parser: Parser,
    argv: list[str],
    adapted: Callable[[PlainDict, argparse.Namespace], PlainDict],
    *,
    fixed: str,
    also: tuple[str, ...] = (),
) -> tuple[EvolutionSettings, EvolutionSettings, argparse.Namespace]:
    """Parse a command line with the settings of a run, `adapted` to the flags, as defaults.

    `also` are prefixes of further settings that may differ, and `fixed` is the reason why others
    may not.

    Returns:
        the new settings, the run's own settings, and the flags.

    Raises:
        ConfigError: if the directory has no evolved part, or other settings change.
    """
    saved: PlainDict = {}

    def defaults(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        run_dir = args.run_dir
        if run_dir is None:
            raise ConfigError(f"missing the run whose result is judged, see {parser.prog} --help")
        run = RunDirectory.open(run_dir)
        content = run.read_config()
        saved.update(content["config"])
        if not {"evolve", "problem"} & saved.keys():
            raise ConfigError(f"{run_dir} holds no evolved part: nothing evolved there")
        used = without_env_params(overrides, adapted(saved, args))
        code.admit(run.path, merge(used, overrides), content["resolved"], overrides, args.code)
        return used

    settings, args = parse_command_line(parser, argv, settings_class, defaults)
    if args.config is not None:
        raise ConfigError("--config: settings are the run's, changed on the command line")
    before = from_dict(type(settings), saved)
    free = (*settings.free(), *FREE, *also)
    changed = [key for key in changed_keys(saved, to_dict(settings)) if not key.startswith(free)]
    if changed:
        allowed = ", ".join(free)
        raise ConfigError(f"{', '.join(changed)}: {fixed}; what may change begins with {allowed}")
    return settings, before, args


def with_unseen(saved: PlainDict, tasks: PlainDict) -> PlainDict:
    """Return a run's settings with other unseen tasks; a run of another study as it is."""
    evaluation = saved.get("evaluation")
    if "evolve" not in saved or not isinstance(evaluation, dict):
        return saved
    return saved | {"evaluation": evaluation | {"unseen": tasks}}


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
