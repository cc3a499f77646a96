"""Command lines: a script's own flags, a YAML file, and any setting as `--section.key value`."""

import argparse
import ast
import dataclasses
import difflib
import inspect
import itertools
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_type_hints

from metaevo.config import (
    MAX_DEPTH,
    ConfigError,
    default_of,
    describe,
    dump_yaml,
    flatten,
    from_dict,
    load_yaml,
    merge,
    parse_yaml,
    show,
    to_dict,
)

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """Raises a ConfigError for what it refuses, where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line."""
        raise ConfigError(message)


def parse_command_line(
    parser: Parser,
    argv: Sequence[str],
    make_class: Callable[[dict[str, Any]], type[T]],
    default_config: Path
    | Callable[[argparse.Namespace, dict[str, Any]], dict[str, Any]]
    | None = None,
) -> tuple[T, argparse.Namespace]:
    """The config and the parser's own arguments, from a command line.

    `parser` holds the script's own flags and was built with `allow_abbrev=False`; `--config FILE`
    is added. Any other `--section.key value` is a setting that overrides the file's
    (`default_config` if none is named: a file, or a function from the parsed flags and these
    settings to the others).
    `make_class` chooses the dataclass from the raw settings.
    `--help` lists all settings, documented by the string literals under the fields, and exits.
    Raises ConfigError, also for what argparse itself refuses.
    """
    parser.add_argument(
        "--config",
        type=Path,
        default=default_config if isinstance(default_config, Path) else None,
        metavar="FILE",
        help="YAML file with settings"
        + (f" (default: {default_config})" if isinstance(default_config, Path) else ""),
    )
    wants_help = any(each in ("-h", "--help") for each in argv)
    args, rest = parser.parse_known_args([each for each in argv if each not in ("-h", "--help")])
    overrides = _parse_overrides(rest)
    settings = load_yaml(args.config) if args.config else {}
    if args.config is None and callable(default_config):
        settings = default_config(args, overrides)
    raw = merge(settings, overrides)
    cls = make_class(raw)
    raw = _with_whole_mappings(cls, raw, overrides)
    if wants_help:
        print(parser.format_help(), _format_settings(cls, raw), sep="\n", end="")
        raise SystemExit(0)
    flags = [name[2:] for name in parser._option_string_actions if name.startswith("--")]
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in overrides.keys() - names:
        if close := difflib.get_close_matches(key, flags, n=1):
            raise ConfigError(f"unknown option --{key} (did you mean --{close[0]}?)")
    return from_dict(cls, raw), args


def _parse_overrides(tokens: Sequence[str]) -> dict[str, Any]:
    """The nested dict of `--section.key value ...` and `--section.key=value`."""
    groups: list[tuple[str, list[str]]] = []
    for token in tokens:
        if re.match(r"--[^\W\d]", token):
            name, equals, value = token[2:].partition("=")
            groups.append((name, [value] if equals else []))
        elif groups:
            groups[-1][1].append(token)
        else:
            raise ConfigError(
                f"unexpected argument {show(token)}; settings are given as --key value"
            )
    overrides: dict[str, Any] = {}
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


def _with_whole_mappings(cls: Any, raw: dict[str, Any], overrides: dict[str, Any]) -> Any:
    """Settings whose mappings, given as a whole on the command line, replace the file's.

    `--evaluation.grid {vf_coef: [1]}` is that grid and no more, while `--evaluation.grid.vf_coef
    [1]` changes one axis; sections (`--strategy {sigma: 1}`) are always merged.
    """
    hints = get_type_hints(cls)
    result = dict(raw)
    for name, value in overrides.items():
        if isinstance(value, _Whole) and not dataclasses.is_dataclass(hints.get(name)):
            result[name] = dict(value)
        elif isinstance(value, dict) and dataclasses.is_dataclass(hints.get(name)):
            result[name] = _with_whole_mappings(hints[name], raw[name], value)
    return result


class _Whole(dict[str, Any]):
    """A mapping given on the command line as one value."""


def _format_settings(cls: Any, raw: dict[str, Any]) -> str:
    """The help text of all settings, with those of `raw` as the defaults; argparse aligns it."""
    width = max(80, min(shutil.get_terminal_size().columns, 120))
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS,
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(
            prog, max_help_position=40, width=width
        ),
    )
    groups: dict[str, Any] = {}
    given = flatten(raw)
    for key, kind, default, text in _settings(cls, "", dataclasses.MISSING):
        section = key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(
                f"settings of {section}" if section else "settings"
            )
        value = given.get(key, default)
        note = "required" if value is dataclasses.MISSING else f"default: {_plain_text(value)}"
        groups[section].add_argument(
            f"--{key}",
            metavar=re.sub(r"\ban? ", "", describe(kind)).replace(
                "mapping of keys to values", "{...}"
            ),
            help=f"{text} ({note})".strip().replace("%", "%%"),
        )
    return parser.format_help().lstrip("\n")


def _plain_text(value: Any) -> str:
    return dump_yaml([to_dict(value)], flow=True)[1:-2]  # of "[value]" and a newline


def _settings(cls: Any, prefix: str, default: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """Dotted key, annotation, default, documentation of every setting, those of sections last."""
    hints, texts = get_type_hints(cls, include_extras=True), _documentation(cls)
    sections = []
    for field in dataclasses.fields(cls):
        if field.init:
            kind = hints[field.name]
            value = getattr(default, field.name) if isinstance(default, cls) else default_of(field)
            if dataclasses.is_dataclass(kind):
                sections.append((kind, f"{prefix}{field.name}.", value))
            else:
                text = texts.get(field.name, field.metadata.get("doc", ""))
                yield prefix + field.name, kind, value, text
    for section in sections:
        yield from _settings(*section)


def _documentation(cls: type) -> dict[str, str]:
    """The string literals under the fields, also of base classes; none where there is no source."""
    texts: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError, SyntaxError):
            continue
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match text:
                    case ast.Expr(value=ast.Constant(value=str(words))):
                        texts[field.target.id] = " ".join(words.split())
    return texts
