"""The command line: `metaevo COMMAND`, or `python -m metaevo COMMAND`.

This module avoids slow imports, so `metaevo`, `--help` and `--version` return immediately.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import metaevo
from metaevo.config.plain import PlainDict
from metaevo.runs.terminal import leave_at_once


class Command(NamedTuple):
    """A subcommand of `metaevo`."""

    about: str
    module: str
    """module with the `main` that parses the rest of the command line"""
    trains: bool = True
    """whether it reads settings and trains agents, so devices have to be set up"""
    joins: bool = False
    """whether several processes can run it together"""


COMMANDS = {
    "evolve": Command(
        "evolve a part of a learner, and compare it with hand-written ones",
        "metaevo.commands.evolve",
        joins=True,
    ),
    "train": Command("train agents in an environment", "metaevo.commands.train"),
    "sweep": Command(
        "search for good settings, each tried on several seeds", "metaevo.commands.sweep"
    ),
    "evaluate": Command("judge what was evolved on another task", "metaevo.commands.evaluate"),
    "generality": Command(
        "judge a rule on a fixed list of tasks, as one number", "metaevo.commands.generality"
    ),
    "distill": Command("turn what was learned into formulas", "metaevo.commands.distill"),
    "judge": Command("judge proposed expressions, one a line", "metaevo.commands.judge"),
    "compare": Command(
        "compare runs: a table, and a page with figures", "metaevo.commands.compare", trains=False
    ),
    "zoo": Command("list and show rules that load by name", "metaevo.commands.zoo", trains=False),
    "envs": Command("list environments", "metaevo.commands.envs"),
    "reproduce": Command("run a published comparison side by side (repository only)", ""),
}


def main(argv: Sequence[str] | None = None, **options: Any) -> int:
    """Run a command.

    Args:
        argv: arguments without the program's name; defaults to `sys.argv[1:]`.
        options: passed on to the command's own `main`.

    Returns:
        the exit code.
    """
    leave_at_once()  # until there is something to save
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # characters that its encoding lacks
    from metaevo.config import exit_on_config_error

    try:
        try:
            with exit_on_config_error():
                name, *rest = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
                return _run(name, rest, options)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader of stdout has closed it
        # Python flushes stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(name: str, rest: list[str], options: PlainDict) -> int:
    if name in ("-h", "--help"):
        print(_overview())
        return 0
    if name == "--version":
        print(f"metaevo {metaevo.__version__}")
        return 0
    if name not in COMMANDS:
        from metaevo.config import ConfigError, show
        from metaevo.config.hints import of_value

        hint = of_value(name, COMMANDS)
        raise ConfigError(f"unknown command {show(name)}{hint}; known: {', '.join(COMMANDS)}")
    if name == "reproduce":
        return _reproduce(rest)
    command = COMMANDS[name]
    if command.trains:
        if _wants_short_help(rest):
            print(help_of(name), end="")
            return 0
        _start_jax(rest if command.joins else None)
    return int(import_module(command.module).main(rest, description=examples_of(name), **options))


def _wants_short_help(argv: Sequence[str]) -> bool:
    """Whether the arguments contain `--help` but not `--help all`."""
    for index, word in enumerate(argv):
        if word in ("-h", "--help"):
            return list(argv[index + 1 : index + 2]) != ["all"]
    return False


def help_of(name: str) -> str:
    """Return the text of `metaevo NAME --help`: examples, flags and the most common settings."""
    return (Path(__file__).parent / "commands" / "help" / f"{name}.txt").read_text(encoding="utf-8")


def examples_of(name: str) -> str:
    """Return the description and the examples at the start of `help_of(name)`."""
    return help_of(name).partition("\nflags\n")[0]


def _overview() -> str:
    lines = "\n".join(f"  {name:11}{command.about}" for name, command in COMMANDS.items())
    return (
        "metaevo: evolve reinforcement-learning algorithms in JAX\n\n"
        f"  metaevo COMMAND --help    what it does, its flags and settings\n\n{lines}\n\n"
        "First: metaevo evolve --quick"
    )


def _start_jax(several: Sequence[str] | None) -> None:
    """Set up the devices before JAX is initialised elsewhere; connect to other processes."""
    if sys.stderr.isatty():  # it takes seconds
        print("importing JAX", file=sys.stderr, flush=True)
    from metaevo.commands import processes
    from metaevo.evolution import devices

    devices.setup()
    if several is not None:
        processes.join(several)
    devices.check()


def _reproduce(argv: Sequence[str]) -> int:
    """Replace this process by the script, which ships with the repository, not the package."""
    script = Path(__file__).resolve().parent.parent / "experiments" / "reproduce.py"
    if not script.is_file():
        from metaevo.config import ConfigError

        raise ConfigError(
            "reproduce needs the repository, which an installed package does not hold: "
            "clone it and call metaevo reproduce, or experiments/reproduce.py, there"
        )
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(script), *argv])


if __name__ == "__main__":
    sys.exit(main())
