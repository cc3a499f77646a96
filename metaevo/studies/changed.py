"""The settings of a finished evolution, changed where that is allowed: for what judges it anew."""

import argparse
from collections.abc import Callable
from pathlib import Path

from metaevo.components import discovery, players
from metaevo.config import ConfigError, changed_keys, consent, to_dict
from metaevo.config.command_line import Parser, parse_command_line
from metaevo.config.plain import PlainDict
from metaevo.runs.run import saved_settings
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import without_env_params
from metaevo.studies import registry
from metaevo.studies.settings import EvolutionSettings

FREE = "evaluation.", "evolution.chunk_size"
"""What may differ from any run, beside what its study says."""


def settings_of_run(
    parser: Parser,
    argv: list[str],
    run_of: Callable[[argparse.Namespace], Path],
    adapted: Callable[[PlainDict, argparse.Namespace], PlainDict],
    *,
    fixed: str,
    also: tuple[str, ...] = (),
) -> tuple[EvolutionSettings, EvolutionSettings, argparse.Namespace]:
    """Parse a command line whose defaults are the settings of a run.

    Args:
        parser: of the command.
        argv: without the program's name.
        run_of: from the flags to the run's directory.
        adapted: from the run's settings and the flags to the defaults.
        fixed: why nothing else may change, for the complaint.
        also: what else may differ.

    Returns:
        the settings, those of the run itself, and the flags.

    Raises:
        ConfigError: if nothing was evolved there, or something else changes.
    """
    saved: PlainDict = {}

    def defaults(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        run_dir = run_of(args)
        saved.update(RunDirectory.open(run_dir).read_config()["config"])
        if args.trust_source:
            consent.trust_names()
        if "evolve" in saved:
            discovery.admit(run_dir, saved["evolve"], trust_source=args.trust_source)
        elif "study" not in saved:
            raise ConfigError(f"{run_dir} holds no discovered component: nothing evolved there")
        elif not args.trust_source:
            players.refuse_unnamed(saved, overrides)
        return without_env_params(overrides, adapted(saved, args))

    settings, args = parse_command_line(
        parser, argv, lambda raw: registry.find(raw).settings(raw, None), defaults
    )
    if args.config is not None:
        raise ConfigError("--config: settings are the run's, changed on the command line")
    before = saved_settings(RunDirectory(run_of(args)), type(settings), saved)
    free = (*registry.find(saved).free, *FREE, *also)
    changed = [key for key in changed_keys(saved, to_dict(settings)) if not key.startswith(free)]
    if changed:
        allowed = ", ".join(free)
        raise ConfigError(f"{', '.join(changed)}: {fixed}; what may change begins with {allowed}")
    return settings, before, args
