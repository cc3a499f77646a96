"""Command lines: a script's own flags, a YAML file, and any setting as `--section.key value`."""

import argparse
import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_type_hints

from metaevo.config import (
    ConfigError,
    from_dict,
    help,
    load_yaml,
    merge,
    parse_yaml,
    presets,
    show,
    to_dict,
)
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict
from metaevo.config.yaml_files import MAX_DEPTH

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
        type=Path,
        metavar="FILE",
        help="YAML file with settings, or the name of a preset (train/ppo_cartpole)",
    )
    args, rest = parser.parse_known_args(argv)
    overrides = _parse_overrides(rest)
    if args.help:
        print(parser.format_help(), end="")
        try:
            raw = _raw_settings(args, overrides, defaults)
            print("", help.format_settings(make_class(raw), raw), sep="\n", end="")
        except ConfigError as error:
            print(f"\nsettings: {error}")
        raise SystemExit(0)
    raw = _raw_settings(args, overrides, defaults)
    cls = make_class(raw)
    raw = _with_whole_mappings(cls, raw, overrides)
    hints = get_type_hints(cls)
    flags = [name.lstrip("-") for name in parser._option_string_actions]
    for key in overrides:
        if key not in hints and (hint := of_value(key, flags)):
            raise ConfigError(f"unknown option --{key}{hint}")
    config = from_dict(cls, raw)
    if quick is not None and args.quick:
        config = from_dict(cls, merge(quick(to_dict(config)), overrides))
    return config, args


def _raw_settings(args: argparse.Namespace, overrides: PlainDict, defaults: Defaults) -> PlainDict:
    """Merge the settings of the file, or the defaults, with the overrides."""
    if args.config is None:
        return merge(defaults(args, overrides), overrides)
    args.config = presets.find(args.config)
    return merge(load_yaml(args.config), overrides)


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
            how = "settings are given as --key value"
            if token.endswith((".yaml", ".yml")) or token in presets.names():
                presets.find(token)  # raises with a suggestion if there is none
                how = f"a file of settings is given as --config {token}"
            raise ConfigError(f"unexpected argument {show(token)}; {how}")
    overrides: PlainDict = {}
    for name, texts in groups:
        if not texts:
            raise ConfigError(f"--{name} needs a value")
        values = [parse_yaml(text, f"--{name}") if text else "" for text in texts]
        if name.count(".") >= MAX_DEPTH:
            raise ConfigError(f"{show(f'--{name}')}: more than {MAX_DEPTH} parts")
        setting: Any = values[0] if len(values) == 1 else values
        if isinstance(setting, dict):
            setting = _Whole(setting)
        for key in reversed(name.split(".")):
            setting = {key: setting}
        overrides = merge(overrides, setting)
    return overrides


def _with_whole_mappings(cls: Any, raw: PlainDict, overrides: PlainDict) -> Any:
    """Replace mappings of the file by mappings that the command line gives as one value.

    `--evaluation.space {vf_coef: [1]}` replaces the space, while `--evaluation.space.vf_coef [1]`
    changes one axis. Sections (`--strategy {sigma: 1}`) are always merged.
    """
    hints = get_type_hints(cls)
    result = dict(raw)
    for name, value in overrides.items():
        if isinstance(value, _Whole) and not dataclasses.is_dataclass(hints.get(name)):
            result[name] = dict(value)
        elif isinstance(value, dict) and dataclasses.is_dataclass(hints.get(name)):
            result[name] = _with_whole_mappings(hints[name], raw[name], value)
    return result


class _Whole(PlainDict):
    """A mapping given on the command line as one value."""
