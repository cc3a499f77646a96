"""Command line of `metaevo envs`: list the environments by name."""

import fnmatch
from collections.abc import Sequence
from importlib.util import find_spec

from metaevo.commands.run_options import Parser
from metaevo.config import ConfigError


def main(argv: Sequence[str]) -> int:
    """Print the list; return 0."""
    parser = Parser("envs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, suites or patterns")
    found = select(parser.parse_flags(argv).names)
    from metaevo.reports.page import Table

    rows = [[name, suite, needs(name, suite)] for name, suite in found.items()]
    print(Table("", ["name", "suite", "needs"], rows).text())
    return 0


def select(patterns: Sequence[str]) -> dict[str, str]:
    """Return the suites by the names of environments of suites or patterns; all without patterns.

    Raises:
        ConfigError: if there is none.
    """
    from purerl.envs.registry import OWN, SUITES, check_name, names, suite_names

    suites = {
        name: suite if suite in SUITES else "metaevo" if name in OWN else "gymnax"
        for name in [*names(), *suite_names()]
        for suite in [name.partition("/")[0]]
    }
    chosen: dict[str, str] = {}
    for pattern in patterns or ["*"]:
        fitting = {
            name: suite
            for name, suite in suites.items()
            if pattern == suite or fnmatch.fnmatch(name.lower(), pattern.lower())
        }
        if not fitting:
            try:
                check_name(pattern)
            except ValueError as error:
                raise ConfigError(str(error)) from None
            raise ConfigError(f"{pattern}: is your own; the list has what metaevo can install")
        chosen |= fitting
    return chosen


def needs(name: str, suite: str) -> str:
    """Return how to install an environment; empty if it is ready."""
    from purerl.envs.registry import DOWNLOADED, SUITES

    if suite in SUITES and find_spec(suite) is None:
        return f"pip install 'metaevo[{suite}]'"
    return "a download" if name in DOWNLOADED else ""
