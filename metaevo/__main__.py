"""The command line: `metaevo COMMAND`, or `python -m metaevo COMMAND`.

This module avoids slow imports, so `metaevo`, `--help` and `--version` return immediately.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import metaevo
from metaevo.config import ConfigError, of_value, show
from metaevo.runs.terminal import leave_at_once

COMMANDS = {
    "evolve": "evolve a part of a learner, and compare it with hand-written ones",
    "train": "train agents in an environment",
    "sweep": "search for good settings, each tried on several seeds",
    "evaluate": "judge what was evolved on another task",
    "generality": "judge a rule on a fixed list of tasks, as one number",
    "distill": "turn what was learned into formulas",
    "judge": "judge proposed expressions, one a line",
    "compare": "compare runs: a table, and a page with figures",
    "zoo": "list and show rules that load by name",
    "envs": "list environments",
    "reproduce": "run a published comparison side by side (repository only)",
}
"""What each command does; its module in metaevo.commands has a `main`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    leave_at_once()  # until there is something to save
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # characters that its encoding lacks
    try:
        try:
            name, *rest = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
            return _run(name, rest)
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader of stdout has closed it
        # Python flushes stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(name: str, rest: list[str]) -> int:
    if name in ("-h", "--help"):
        print(_overview())
        return 0
    if name == "--version":
        print(f"metaevo {metaevo.__version__}")
        return 0
    if name not in COMMANDS:
        hint = of_value(name, COMMANDS)
        raise ConfigError(f"unknown command {show(name)}{hint}; known: {', '.join(COMMANDS)}")
    if name == "reproduce":
        return _reproduce(rest)
    return int(import_module(f"metaevo.commands.{name}").main(rest))


def _overview() -> str:
    lines = "\n".join(f"  {name:11}{about}" for name, about in COMMANDS.items())
    return (
        "metaevo: evolve reinforcement-learning algorithms in JAX\n\n"
        f"  metaevo COMMAND --help    what it does, its flags and settings\n\n{lines}\n\n"
        "First: metaevo evolve --quick"
    )


def _reproduce(argv: Sequence[str]) -> int:
    """Replace this process by the script, which ships with the repository, not the package."""
    script = Path(__file__).resolve().parent.parent / "experiments" / "reproduce.py"
    if not script.is_file():
        raise ConfigError(
            "reproduce needs the repository, which an installed package does not hold: "
            "clone it and call metaevo reproduce, or experiments/reproduce.py, there"
        )
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(script), *argv])


if __name__ == "__main__":
    sys.exit(main())
