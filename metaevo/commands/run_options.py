"""What commands share: command lines of flags and settings, a run to resume, the start of JAX."""

import argparse
import dataclasses
import functools
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from metaevo.config import ConfigError, find_preset, from_dict, merge, show, to_dict
from metaevo.config.files import load_yaml, parse_yaml
from metaevo.config.plain import PlainDict, Whole, names_in, nested, of_value
from metaevo.runs.run_directory import RunDirectory

Defaults = Callable[[argparse.Namespace, PlainDict], PlainDict]
HELP = Path(__file__).parent / "help"
"""A text for each command: what it does and examples, and the settings that are used most"""


class Parser(argparse.ArgumentParser):
    """Parser of a command, with its text in `HELP`; it raises `ConfigError` and does not exit."""

    def __init__(self, command: str):
        """Create the parser of a command."""
        text = (HELP / f"{command}.txt").read_text(encoding="utf-8")
        about, _, often = text.partition("\nsettings used most\n")
        super().__init__(
            prog=f"metaevo {command}",
            usage=argparse.SUPPRESS,
            description=about.rstrip(),
            epilog=often and f"settings used most:\n{often.rstrip()}",
            allow_abbrev=False,
            formatter_class=functools.partial(
                argparse.RawDescriptionHelpFormatter, width=100, max_help_position=27
            ),
            conflict_handler="resolve",
        )

    def error(self, message: str) -> NoReturn:
        """Raise `ConfigError` for an invalid command line."""
        raise ConfigError(message)

    def parse_flags(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse a command line without settings."""
        for word in argv:
            name, known = word.partition("=")[0], self._option_string_actions
            if name.startswith("--") and name not in known:
                raise ConfigError(f"unknown flag {name}{of_value(name, known)}")
        return self.parse_args(argv)


def computing(command: str) -> Parser:
    """Return the parser of a command that trains agents."""
    parser = Parser(command)
    text = "check everything and print what would be computed; nothing is written"
    parser.add_argument("--dry-run", action="store_true", help=text)
    text = "code of your own that a run directory names, and that may run"
    parser.add_argument("--code", action="append", default=[], metavar="FILE", help=text)
    return parser


def run_parser(command: str) -> Parser:
    """Return the parser of a command with a run directory."""
    parser = computing(command)
    text = "default: runs/<experiment>/<timestamp>; latest is the newest run"
    parser.add_argument("--run-dir", metavar="DIR", help=text)
    parser.add_argument("--resume", action="store_true", help="continue the run in --run-dir")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see how it all works")
    parser.add_argument(
        "--wandb", nargs="?", const="offline", dest="run.wandb", metavar="MODE",
        help="log the run to Weights & Biases: offline (default), online, disabled",
    )  # fmt: skip
    parser.add_argument(
        "--mlflow", nargs="?", const="local", dest="run.mlflow", metavar="URI",
        help="log the run to MLflow; without a URI to the database ./mlruns.db",
    )  # fmt: skip
    return parser


def settings_class(command: str, raw: PlainDict) -> Any:
    """Return the class of unvalidated settings; its import takes a second."""
    if command in ("train", "sweep"):
        from metaevo.studies.reading import CLASSES

        return CLASSES[command](raw)
    from metaevo.studies.settings import settings_class

    return settings_class(raw)


def parse_settings(
    parser: Parser,
    argv: Sequence[str],
    defaults: Defaults = lambda args, overrides: {},
) -> tuple[Any, argparse.Namespace]:
    """Parse a command line into settings and the command's own flags.

    They are validated before JAX's backend starts, unless code of the user's starts it. `--help
    all` lists all settings, with the string literals under the fields as documentation. A flag
    whose `dest` has a dot is short for the setting of that name.
    `defaults` maps the flags and the overrides (`--section.key value`) to the settings without
    `--config` and `--resume`.
    """
    parser.add_argument(
        *("-h", "--help"), nargs="?", const="short", choices=["short", "all"], metavar="all",
        help="show this, or all flags and settings with their defaults",
    )  # fmt: skip
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file with settings, or a preset (train/ppo_cartpole)"
    )
    args, rest = parser.parse_known_args(argv)
    if args.help == "short":
        parser.print_help()
        raise SystemExit(0)
    if (named := getattr(args, "run_dir", None)) == "latest":
        from metaevo.runs.finding import run_path

        args.run_dir = run_path(named)
    elif named is not None:  # `./latest`, too
        args.run_dir = Path(named)
    given, command = _groups(rest), parser.prog.split()[-1]
    short = {name: value for name, value in vars(args).items() if "." in name and value is not None}
    overrides = _parse_overrides({**short, **{name: each for name, each in given.items() if each}})
    try:
        if args.config is not None:
            args.config = find_preset(args.config)
            known = load_yaml(args.config)
        elif getattr(args, "resume", False):
            known = settings_in(args, overrides, lambda saved: saved, command)
        else:
            known = defaults(args, overrides)
        raw = merge(_without_layers(known, overrides), overrides)
        (start_jax if names_in(raw) else set_up_jax)()  # code of the user's may use its backend
        cls = settings_class(command, raw)
        if args.help:
            from metaevo.config.documentation import add_settings

            add_settings(parser, cls, raw)
    except ConfigError as error:
        if not args.help:
            raise
        parser.epilog = f"settings: {error}"
    if args.help:
        parser.print_help()
        raise SystemExit(0)
    _check_names(parser, cls, given)
    if getattr(args, "quick", False):
        from metaevo.runs.quick import quickened

        raw = merge(quickened(to_dict(from_dict(cls, raw))), overrides)
    settings = from_dict(cls, raw)
    start_jax()
    return settings, args


def settings_in(
    args: argparse.Namespace,
    overrides: PlainDict,
    adapt: Callable[[PlainDict], PlainDict],
    command: str | None = None,
) -> PlainDict:
    """Return the settings of the run that the command line names, adapted for this command.

    Raises:
        ConfigError: if it names no run, or one of another `command`, or not all code of the run.
    """
    run = RunDirectory.open(args.run_dir)
    content = run.read_config()
    began = content["resolved"].get("job_type", "").replace("evolution", "evolve")
    if command and began not in ("", command):
        raise ConfigError(f"{run.path} holds a run of metaevo {began}, not of metaevo {command}")
    settings = adapt(content["config"])
    if args.code or names_in(overrides):
        start_jax()
    used = merge(settings, overrides)
    if args.code or names_in(used):
        from metaevo.config import code

        code.admit(run.path, used, content["resolved"], overrides, args.code)
    return settings


def _without_layers(settings: PlainDict, overrides: PlainDict) -> PlainDict:
    """Return settings without those of the default network, if the overrides name another."""
    train, changes = settings.get("train"), overrides.get("train")
    if not (isinstance(train, dict) and isinstance(changes, dict) and changes.get("network")):
        return settings
    from purerl.parts.networks import OF_DEFAULT

    return {**settings, "train": {key: train[key] for key in train if key not in OF_DEFAULT}}


def without_env_params(overrides: PlainDict, settings: PlainDict) -> PlainDict:
    """Return the defaults, without `task.env_params` if the overrides name an environment."""
    task = overrides.get("task")
    if isinstance(task, dict) and "env" in task:
        return {**settings, "task": {**settings.get("task", {}), "env_params": {}}}
    return settings


def _groups(tokens: Sequence[str]) -> dict[str, list[str]]:
    """Return the values in `--section.key value ...` and `--section.key=value` by their names."""
    groups: dict[str, list[str]] = {}
    name = None
    for token in tokens:
        if re.match(r"--[^\W\d]", token):
            name, equals, value = token[2:].partition("=")
            groups.pop(name, None)
            groups[name] = [value] if equals else []
        elif name is not None:
            groups[name].append(token)
        else:
            how = "settings are given as --key value, and a file of settings as --config FILE"
            raise ConfigError(f"unexpected argument {show(token)}; {how}")
    return groups


def _parse_overrides(groups: Mapping[str, str | list[str]]) -> PlainDict:
    """Return a nested dict of the values with dotted names."""
    overrides: PlainDict = {}
    for name, texts in groups.items():
        texts = [texts] if isinstance(texts, str) else texts
        values = [parse_yaml(text, f"--{name}") if text else "" for text in texts]
        setting: Any = values[0] if len(values) == 1 else values
        if isinstance(setting, dict):
            setting = Whole(setting)
        overrides = merge(overrides, nested(name, setting))
    return overrides


def _check_names(parser: Parser, cls: Any, given: Mapping[str, list[str]]) -> None:
    """Raise `ConfigError` for a flag that is no setting, or that lacks its value."""
    for name, values in given.items():
        kind = cls
        for part in name.split("."):
            if not dataclasses.is_dataclass(kind):
                break
            fields = {each.name: each.type for each in dataclasses.fields(kind)}
            if part not in fields:
                flags = [flag[2:] for flag in parser._option_string_actions]
                from metaevo.config.wording import unknown

                raise unknown(name, cls, flags)
            kind = fields[part]
        if not values:
            raise ConfigError(f"--{name} needs a value")


@functools.cache
def set_up_jax() -> None:
    """Set up the devices, before code of the user's starts JAX's backend."""
    if sys.stderr.isatty():  # it takes seconds
        print("importing JAX", file=sys.stderr, flush=True)
    from metaevo.evolution import devices

    devices.setup()


def start_jax(several: PlainDict | None = None) -> None:
    """Start JAX's backend.

    `several` are arguments of `jax.distributed.initialize`, to connect this process with others.
    """
    set_up_jax()
    from metaevo.evolution import devices

    if several is not None:
        from metaevo.evolution.hosts import connect

        connect(**several)
        if not devices.is_first():
            warnings.simplefilter("ignore")  # the first process shows them
    devices.check()
