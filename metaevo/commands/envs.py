"""Command line of `metaevo envs`: list the environments by name."""

import fnmatch
from collections.abc import Sequence
from importlib.util import find_spec

from metaevo.config import ConfigError, exit_on_config_error
from metaevo.config.command_line import Parser
from metaevo.reports.page import Table
from purerl import envs
from purerl.envs.registry import DOWNLOADED, OWN, SUITES, check_name


@exit_on_config_error()
def main(argv: Sequence[str], *, description: str | None) -> int:
    """Print the list; return 0."""
    parser = Parser("envs", description)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, suites or patterns")
    found = select(parser.parse_args(argv).names)
    print(Table("", ["name", "suite", "needs"], [[n, suite_of(n), needs(n)] for n in found]).text())
    return 0


def select(patterns: Sequence[str]) -> list[str]:
    """Return the environments of the given suites or patterns; all without patterns.

    Raises:
        ConfigError: if there is none.
    """
    names = [*envs.names(), *envs.suite_names()]
    chosen: list[str] = []
    for pattern in patterns or ["*"]:
        fitting = [
            name
            for name in names
            if pattern == suite_of(name) or fnmatch.fnmatch(name.lower(), pattern.lower())
        ]
        if not fitting:
            try:
                check_name(pattern)
            except ValueError as error:
                raise ConfigError(str(error)) from None
            raise ConfigError(f"{pattern}: is your own; the list has what metaevo can install")
        chosen += fitting
    return list(dict.fromkeys(chosen))


def suite_of(name: str) -> str:
    """Return the suite that an environment belongs to."""
    suite = name.partition("/")[0]
    return suite if suite in SUITES else "metaevo" if name in OWN else "gymnax"


def needs(name: str) -> str:
    """Return how to install an environment; empty if it is ready."""
    suite = suite_of(name)
    if suite in SUITES and find_spec(suite) is None:
        return f"pip install 'metaevo[{suite}]'"
    return "a download" if name in DOWNLOADED else ""
