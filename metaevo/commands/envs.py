"""Command line of `metaevo envs`: list the environments."""

import fnmatch
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from metaevo.config import ConfigError, exit_on_config_error, show
from metaevo.config.command_line import Parser
from metaevo.config.plain import PlainDict
from metaevo.tasks.binding import rehearse
from purerl import envs
from purerl.custom import is_custom
from purerl.envs.registry import DOWNLOADED, OWN, SUITES, check_name

TITLES = "suite", "name", "raw observation", "actions", "time limit"


@exit_on_config_error()
def main(argv: Sequence[str], *, description: str | None) -> int:
    """Print the list; return 0."""
    parser = Parser("envs", description)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, suites or patterns")
    args = parser.parse_args(argv)
    found = select(args.names)
    suites = [suite for suite in map(suite_of, found) if suite in SUITES]
    missing = {
        suite: (count, f"pip install 'metaevo[{suite}]'")
        for suite, count in Counter(suites).items()
        if find_spec(suite) is None
    }
    if sum(count for count, _ in missing.values()) == len(found):
        raise ConfigError(
            "; ".join(f"{suite} is not installed: {how}" for suite, (_, how) in missing.items())
        )
    widths = 10, max(map(len, [*found, "name"])), 15, 22, 10
    for cells in [TITLES, *rows(found)]:
        print("  ".join(map(str.ljust, cells, widths)).rstrip(), flush=True)
    for suite, (count, how) in missing.items():
        print(f"{suite}: {count} environments need {how}")
    return 0


def select(patterns: Sequence[str]) -> list[str]:
    """Return the environments of the given suites or patterns; all without patterns."""
    names = [*envs.names(), *envs.suite_names()]
    if not patterns:
        return names
    chosen = {}
    for pattern in patterns:
        fitting = [
            name
            for name in ([pattern] if is_custom(pattern) else names)
            if pattern in (name, suite_of(name)) or fnmatch.fnmatch(name.lower(), pattern.lower())
        ]
        if not fitting and not set(pattern) & set("*?["):
            try:
                check_name(pattern)
            except ValueError as error:
                raise ConfigError(str(error)) from None
        if not fitting:
            raise ConfigError(
                f"no environment is called {show(pattern)}; metaevo envs lists all, and a pattern "
                "such as 'navix/DoorKey*' some"
            )
        chosen.update(dict.fromkeys(fitting))
    return list(chosen)


def suite_of(name: str) -> str:
    """Return the suite that an environment belongs to."""
    suite = name.partition("/")[0]
    if is_custom(name):
        return "own"
    return suite if suite in SUITES else "metaevo" if name in OWN else "gymnax"


def rows(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cells under `TITLES`, except for environments of suites that are not installed."""
    for name in names:
        suite = suite_of(name)
        if name in DOWNLOADED:
            yield suite, name, "needs a download"
            continue
        if suite in SUITES and find_spec(suite) is None:
            continue
        changes: PlainDict = {"pool": None} if suite in SUITES else {}
        try:
            env, params = envs.make(name, observations="raw", **changes)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if is_custom(name):
            rehearse(name, env, params)
        limit = getattr(params, "max_steps_in_episode", None)
        yield (
            suite,
            name,
            _size(env.observation_space(params)),
            _actions(env.action_space(params)),
            "none" if limit is None else f"{int(limit):,}",
        )


def _size(space: Any) -> str:
    if hasattr(space, "n"):
        return f"{int(space.n)} values"
    return " x ".join(map(str, space.shape)) or "1"


def _actions(space: Any) -> str:
    if hasattr(space, "n"):
        return _size(space)
    if not hasattr(space, "low"):
        return type(space).__name__
    low, high = np.min(space.low), np.max(space.high)
    return f"{_size(space)} in [{low:g}, {high:g}]"
