"""Command lines: a script's own flags, a YAML file, and any setting as `--section.key value`."""

import argparse
import dataclasses
import re
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

from metaevo.config import ConfigError, from_dict, merge, presets, show, to_dict
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict, Whole, flatten
from metaevo.config.sections import settings_of
from metaevo.config.yaml_files import dump_yaml, load_yaml, parse_yaml

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
            _add_settings(parser, cls, raw)
    except ConfigError as error:
        if not args.help:
            raise
        parser.epilog = f"settings: {error}"
    if args.help:
        parser.print_help()
        raise SystemExit(0)
    flags = [name.lstrip("-") for name in parser._option_string_actions]
    known = {each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in overrides.keys() - known:
        if hint := of_value(key, flags):
            raise ConfigError(f"unknown option --{key}{hint}")
    if quick is not None and args.quick:
        raw = merge(quick(to_dict(from_dict(cls, raw))), overrides)
    return from_dict(cls, raw), args


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


def _add_settings(parser: argparse.ArgumentParser, cls: Any, raw: PlainDict) -> None:
    """Add the help of all settings to a parser's, with the values in `raw` as defaults."""
    parser.usage = f"{parser.prog} [--flag ...] [--section.setting VALUE ...]"
    groups: PlainDict = {"": parser.add_argument_group("settings")}
    given = flatten(raw)
    for key, kind, default, text in settings_of(cls):
        if dataclasses.is_dataclass(kind):
            groups[key] = parser.add_argument_group(f"settings of {key}")
            continue
        note, value = "required", given.get(key, default)
        if value is not dataclasses.MISSING:
            note = f"default: {dump_yaml([to_dict(value)], flow=True)[1:-2]}"
        groups[key.rpartition(".")[0]].add_argument(
            f"--{key}", metavar=describe(kind), help=f"{text} ({note})".strip().replace("%", "%%")
        )


_WORDS = {int: "integer", float: "number", bool: "true or false", str: "text", type(None): "null"}
_LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "max_length": "of length <="}
"""Symbols before the limits of annotated_types, by attribute."""


def describe(kind: Any) -> str:
    """Describe the values that an annotation allows."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [
            f"{words} {limit}"
            for each in arguments[1:]
            for name, words in _LIMITS.items()
            if (limit := getattr(each, name, None)) is not None
        ]
        return f"{describe(arguments[0])} {' and '.join(limits)}".strip()
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, arguments))
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (tuple, list):
        items = ["..." if each is ... else describe(each) for each in arguments]
        return f"list [{', '.join(items + ['...'] * (origin is list))}]"
    return _WORDS.get(kind, "{...}")
