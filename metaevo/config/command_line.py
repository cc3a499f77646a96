"""Command lines: a script's own flags, a YAML file, and any setting as `--section.key value`."""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, get_type_hints

from metaevo.config import ConfigError, from_dict, help, merge, presets, show, to_dict
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict, Whole
from metaevo.config.yaml_files import load_yaml, parse_yaml

T = TypeVar("T")
Defaults = Callable[[argparse.Namespace, PlainDict], PlainDict]


class Parser(argparse.ArgumentParser):
    """Argument parser that raises `ConfigError` instead of printing its usage and exiting."""

    def __init__(self, command: str, description: str | None = None):
        """Create a command's parser; line breaks in `description` are kept."""
        super().__init__(
            prog=f"metaevo {command}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            conflict_handler="resolve",
        )

    def error(self, message: str) -> NoReturn:
        """Raise `ConfigError` for an invalid command line."""
        raise ConfigError(message)


def parse_command_line(
    parser: Parser,
    argv: Sequence[str],
    make_class: Callable[[PlainDict], type[T]],
    defaults: Defaults,
    quick: Callable[[PlainDict], PlainDict] | None = None,
) -> tuple[T, argparse.Namespace]:
    """Parse a command line into settings and the command's own flags.

    `--help` and `--help all` list all settings, with the string literals under the fields as their
    documentation, and exit.

    Args:
        parser: parser with the command's own flags; `--config` (a file or a preset) is added.
        argv: arguments without the program's name. `--section.key value` overrides the setting in
            the file.
        make_class: chooses the dataclass from the raw settings.
        defaults: maps the flags and the overrides to the settings, without `--config`.
        quick: reduces the settings, except the overrides, if `--quick` is given.
    """
    parser.add_argument(
        *("-h", "--help"),
        nargs="?",
        const="all",
        choices=["all"],
        help="show this help message with all settings, and exit",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file with settings, or the name of a preset (train/ppo_cartpole)",
    )
    args, rest = parser.parse_known_args(argv)
    overrides = _parse_overrides(rest)
    try:
        if args.config is not None:
            args.config = presets.find(args.config)
        given = defaults(args, overrides) if args.config is None else load_yaml(args.config)
        raw = merge(given, overrides)
        cls = make_class(raw)
        if args.help:
            help.add_settings(parser, cls, raw)
    except ConfigError as error:
        if not args.help:
            raise
        parser.epilog = f"settings: {error}"
    if args.help:
        parser.print_help()
        raise SystemExit(0)
    flags = [name.lstrip("-") for name in parser._option_string_actions]
    for key in overrides.keys() - get_type_hints(cls).keys():
        if hint := of_value(key, flags):
            raise ConfigError(f"unknown option --{key}{hint}")
    config = from_dict(cls, raw)
    if quick is not None and args.quick:
        config = from_dict(cls, merge(quick(to_dict(config)), overrides))
    return config, args


def _parse_overrides(tokens: Sequence[str]) -> PlainDict:
    """Parse `--section.key value ...` and `--section.key=value` into a nested dict."""
    groups: list[tuple[str, list[str]]] = []
    for token in tokens:
        if re.match(r"--[^\W\d]", token):
            name, equals, value = token[2:].partition("=")
            groups.append((name, [value] if equals else []))
        elif groups:
            groups[-1][1].append(token)
        else:
            how = "settings are given as --key value, and a file of settings as --config FILE"
            raise ConfigError(f"unexpected argument {show(token)}; {how}")
    overrides: PlainDict = {}
    for name, texts in groups:
        if not texts:
            raise ConfigError(f"--{name} needs a value")
        values = [parse_yaml(text, f"--{name}") if text else "" for text in texts]
        setting: Any = values[0] if len(values) == 1 else values
        if isinstance(setting, dict):
            setting = Whole(setting)
        for key in reversed(name.split(".")):
            setting = {key: setting}
        overrides = merge(overrides, setting)
    return overrides
