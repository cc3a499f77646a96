"""`metaevo envs`: list the environments, with their steps per second given `--speed`."""

import fnmatch
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError, exit_on_config_error, show
from metaevo.config.command_line import Parser
from metaevo.config.plain import PlainDict
from metaevo.tasks.binding import rehearse
from purerl import envs
from purerl.custom import is_custom
from purerl.envs.registry import DOWNLOADED, OWN, SUITES, check_name
from purerl.envs.suite import tolerant

TITLES = "suite", "name", "raw observation", "actions", "time limit", "steps/s"
NUM_ENVS, NUM_STEPS, REPEATS = 64, 100, 3


@exit_on_config_error()
def main(argv: Sequence[str], *, description: str | None) -> int:
    """Print the list; return 0."""
    parser = Parser("envs", description)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, suites or patterns")
    parser.add_argument("--speed", action="store_true", help="measure steps per second")
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
    columns = TITLES if args.speed else TITLES[:-1]
    widths = 10, max(map(len, [*found, "name"])), 15, 22, 10, 10
    for cells in [columns, *rows(found, speed=args.speed)]:
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


def rows(names: Sequence[str], *, speed: bool) -> Iterator[tuple[str, ...]]:
    """Yield the cells under `TITLES`, except for environments of suites that are not installed.

    Measuring the speed takes seconds per environment.
    """
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
        cells = (
            suite,
            name,
            _size(env.observation_space(params)),
            _actions(env.action_space(params)),
            "none" if limit is None else f"{int(limit):,}",
        )
        yield (*cells, f"{steps_per_second(name):,.0f}") if speed else cells


def _size(space: Any) -> str:
    if hasattr(space, "n"):
        return f"{int(space.n)} values"
    return " x ".join(map(str, space.shape)) or "1"


def _actions(space: Any) -> str:
    if hasattr(space, "n"):
        return _size(space)
    if not hasattr(space, "low"):
        return type(space).__name__
    low, high = jnp.min(jnp.asarray(space.low)), jnp.max(jnp.asarray(space.high))
    return f"{_size(space)} in [{low:g}, {high:g}]"


def steps_per_second(name: str) -> float:
    """Measure steps with random actions, as learners see them: 64 environments, best of 3."""
    env, params = envs.make(name)
    play = jax.jit(random_play(env, NUM_ENVS, NUM_STEPS))
    with tolerant():
        keys = jax.random.split(jax.random.key(0), REPEATS + 1)
        jax.block_until_ready(play(keys[0], params))
        times = []
        for key in keys[1:]:
            start = time.perf_counter()
            jax.block_until_ready(play(key, params))
            times.append(time.perf_counter() - start)
    return NUM_ENVS * NUM_STEPS / min(times)


def random_play(env: Any, num_envs: int, num_steps: int) -> Callable[[jax.Array, Any], jax.Array]:
    """Return a function from a key and the environment's parameters to the sum of all rewards.

    It also adds the observations, because XLA removes what is unused.
    """

    def play(key: jax.Array, params: Any) -> jax.Array:
        key, reset_key = jax.random.split(key)
        _, state = jax.vmap(env.reset, (0, None))(jax.random.split(reset_key, num_envs), params)

        def step(_, carry):
            state, key, total = carry
            key, action_key, step_key = jax.random.split(key, 3)
            action_keys, step_keys = (
                jax.random.split(each, num_envs) for each in (action_key, step_key)
            )
            actions = jax.vmap(env.action_space(params).sample)(action_keys)
            obs, state, reward, *_ = jax.vmap(env.step, (0, 0, 0, None))(
                step_keys, state, actions, params
            )
            return state, key, total + jnp.sum(reward) + jnp.sum(obs)

        return jax.lax.fori_loop(0, num_steps, step, (state, key, jnp.float32(0)))[-1]

    return play
