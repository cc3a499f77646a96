"""The settings of an existing run, to judge what it has found."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from metaevo.commands.run_options import (
    Parser,
    parse_settings,
    settings_in,
    without_env_params,
)
from metaevo.config import ConfigError, changed_keys, from_dict, to_dict
from metaevo.config.plain import PlainDict

if TYPE_CHECKING:
    from metaevo.studies.settings import EvolutionSettings

FREE = "evaluation.", "evolution.chunk_size"
"""Settings that may differ for every study, in addition to `EvolutionSettings.free`."""


def settings_of_run(
    parser: Parser,
    argv: list[str],
    adapted: Callable[[PlainDict, argparse.Namespace], PlainDict],
    *,
    fixed: str,
    also: tuple[str, ...] = (),
) -> "tuple[EvolutionSettings, EvolutionSettings, argparse.Namespace]":
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
        if args.run_dir is None:
            raise ConfigError(f"missing the run whose result is judged, see {parser.prog} --help")

        def adapt(config: PlainDict) -> PlainDict:
            saved.update(config)
            if not {"evolve", "problem"} & saved.keys():
                raise ConfigError(f"{args.run_dir} holds no evolved part: nothing evolved there")
            return without_env_params(overrides, adapted(saved, args))

        return settings_in(args, overrides, adapt)

    settings, args = parse_settings(parser, argv, defaults)
    if args.config is not None:
        raise ConfigError("--config: settings are the run's, changed on the command line")
    before = from_dict(type(settings), saved)
    free = (*settings.free(), *FREE, *also)
    changed = [key for key in changed_keys(saved, to_dict(settings)) if not key.startswith(free)]
    if changed:
        allowed = ", ".join(free)
        raise ConfigError(f"{', '.join(changed)}: {fixed}; what may change begins with {allowed}")
    return settings, before, args
