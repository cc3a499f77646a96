"""Workers of other projects: commands that are measured in the same comparison."""

import argparse
import shlex
import shutil

from experiments.benchmarks.processes import Argument, Variant

FIELDS = ("suite", "task", "agents", "updates", "generations", "agent_steps", "games", "hidden")
"""Placeholders `{name}` in a command; 0 if a suite does not have the number."""


def external(text: str) -> tuple[str, list[str]]:
    """Parse `NAME=COMMAND`.

    Raises:
        argparse.ArgumentTypeError: if the format is wrong, the program does not exist, or a field
            is unknown.
    """
    name, separator, command = text.partition("=")
    if not (separator and name.strip() and command.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=COMMAND")
    try:
        words = shlex.split(command)
        _fill(words, dict.fromkeys(FIELDS, 0))
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        fields = ", ".join(f"{{{field}}}" for field in FIELDS)
        raise argparse.ArgumentTypeError(f"{text!r}: {error}; fields: {fields}") from None
    if not shutil.which(words[0]):
        raise argparse.ArgumentTypeError(f"{text!r}: there is no program {words[0]}")
    return name.strip(), words


def externals(options: argparse.Namespace, **fields: Argument) -> dict[str, Variant]:
    """Return the variants from the command line for one amount of work."""
    values = {**dict.fromkeys(FIELDS, 0), **fields}
    return {name: Variant(_fill(words, values)) for name, words in options.external}


def _fill(words: list[str], values: dict[str, Argument]) -> list[str]:
    return [word.format(**values) for word in words]
