"""`make`: build `(env, env_params)` from the name of an environment and overrides."""

import dataclasses
import difflib
import inspect
import numbers
from functools import cache
from importlib import import_module
from typing import Any, get_args

import gymnax
import jax
from gymnax import registration
from gymnax.environments import spaces
from gymnax.environments.environment import Environment as GymnaxEnvironment
from gymnax.environments.environment import EnvParams as GymnaxParams

from purerl.envs.features import Features, is_nested, tree
from purerl.envs.grid_world import GridWorld
from purerl.envs.grid_worlds import GridWorlds
from purerl.envs.state_index import with_state_index
from purerl.envs.suite import Suite, SuiteEnvironment
from purerl.types import Environment, Observations, PyTree
from purerl.wrapped import changed, innermost

OWN: dict[str, type] = {"GridWorld": GridWorld, "GridWorlds": GridWorlds}
"""Environments of this package."""
SUITES = "brax", "navix", "xminigrid", "craftax"
"""Suites of environments, `suite/name`, that an extra installs; all others are gymnax's."""

DOWNLOADED = {"MNISTBandit-bsuite"}
"""Gymnax environments that download data when they are built."""


def names() -> list[str]:
    """Return the names that need no extra, purerl's own first; see `suite_names` for the others."""
    return [*OWN, *(name for name in gymnax.registered_envs if name not in OWN)]


def suite_names() -> list[str]:
    """Return the names of all suites, `suite/name`, installed or not."""
    return [f"{suite}/{name}" for suite in SUITES for name in suite_of(suite).names]


@cache
def suite_of(name: str) -> Suite:
    """Return a suite, whose adapter is imported when it is used."""
    suite: Suite = import_module(f"purerl.envs.{name}_suite").SUITE
    return suite


def make(
    env: str | type | Environment, *, observations: Observations = "auto", **overrides: Any
) -> tuple[Any, Any]:
    """Build an environment and its (traced) parameters.

    Observations are float32 arrays. With `auto`, images [height, width, channels] keep their shape
    and all other observations become vectors (one-hot if they are discrete). With `flat`, images
    are flattened as well. With `raw`, observations are unchanged. With `index`, an observation is
    the number of the state, for tabular learners. Nested observations always become vectors, see
    `purerl.envs.features`.

    An environment is named or, if it is the user's, passed as a class or an object with gymnax's
    interface.

    Overrides are fields of the environment's parameters (`max_steps_in_episode=200`) or arguments
    of its constructor (`size=10` for DeepSea-bsuite, `backend="mjx"` for brax/ant). Calls with
    equal arguments return the same environment object, so compiled functions are shared.

    Raises:
        ValueError: if the name is unknown (the message lists close names), if an override is
            unknown (the message lists the parameters) or has the wrong type, if a user's
            environment cannot be reset, has no time limit, or has observations in other spaces, if
            an environment needs data that cannot be downloaded, if its suite is not installed, or
            if `observations` is `index` and states have no number.
    """
    if observations not in get_args(Observations):
        allowed = ", ".join(get_args(Observations))
        raise ValueError(f"observations = {observations!r} must be one of {allowed}")
    is_own = not isinstance(env, str)
    name = getattr(env, "__name__", type(env).__name__) if is_own else str(env)
    if not is_own:
        check_name(name)
    constructor = list(inspect.signature(_constructor(env)).parameters)
    constructor_overrides = {
        key: _argument(name, key, value) for key, value in overrides.items() if key in constructor
    }
    try:
        made, params = _make(env, observations, tuple(sorted(constructor_overrides.items())))
    except (TypeError, ValueError, OSError) as error:
        reason = "it needs a download: " if name in DOWNLOADED else ""
        raise ValueError(f"cannot build environment {name!r}: {reason}{error}") from error

    fields = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    if name not in names() and not is_own:  # other fields, such as starts, are drawn
        fields = {key: value for key, value in fields.items() if isinstance(value, int | float)}
    replacements = {}
    for key, value in overrides.items():
        if key in constructor_overrides:
            continue
        if key not in fields:
            raise ValueError(
                f"{name} has no parameter {key!r}; it has: {', '.join([*fields, *constructor])}"
            )
        replacements[key] = _checked(name, key, value, default=fields[key])
    if is_own and LIMIT not in overrides and not _sets_limit(env, params):
        raise ValueError(
            f"cannot build environment {name!r}: its episodes have one step, gymnax's default: add "
            f"`{LIMIT}: int`, the time limit, to {type(params).__name__}, or set env_params.{LIMIT}"
        )
    params = params.replace(**replacements)
    if isinstance(innermost(made)[0], SuiteEnvironment):  # with data that is drawn once
        params = changed(made, params, lambda env, params: env.prepared(params))
    return made, params


def check_name(name: str) -> None:
    """Check that the name of an environment is known.

    Raises:
        ValueError: if it is not; the message has close names.
    """
    suite, _, rest = str(name).partition("/")
    if name not in names() and not (suite in SUITES and rest in suite_of(suite).names):
        raise ValueError(f"unknown environment {name!r}; {_hint(str(name))}")


def _hint(name: str) -> str:
    """Suggest close names for an unknown one, also if its suite is missing or wrong."""
    known = {full.lower(): full for full in [*names(), *suite_names()]}
    suite, _, rest = name.lower().rpartition("/")
    wanted = name.lower() if suite in SUITES else rest
    if near := difflib.get_close_matches(wanted, known, n=5, cutoff=0.5):
        return f"did you mean {', '.join(known[each] for each in near)}?"
    return f"known: {', '.join(names())}, and the suites {', '.join(SUITES)}"


@cache
def _make(
    given: str | type | Environment, observations: Observations, kwargs: tuple
) -> tuple[Any, Any]:
    if given in names() and given not in OWN:
        env, params = gymnax.make(given, **dict(kwargs))
    else:
        env = _constructor(given)(**dict(kwargs))
        params = env.default_params
    if not isinstance(given, str):
        _check_episodes(env, params)
    if observations == "raw" and not is_nested(env.observation_space(params)):
        return env, params
    if observations == "index":
        return with_state_index(env, params), params
    return Features(env, flat=observations == "flat"), params


def _constructor(env: str | type | Environment) -> Any:
    if not isinstance(env, str):
        return env if isinstance(env, type) else lambda: env
    suite, _, rest = env.partition("/")
    if suite in SUITES:
        return suite_of(suite).constructor(rest)
    return OWN[env] if env in OWN else registration._registry[env]


def _check_episodes(env: Environment, params: PyTree) -> None:
    """Check that a user's environment can be reset, and that gymnax can end its episodes.

    Raises:
        ValueError: if it cannot; the message says what to add.
    """
    if not dataclasses.is_dataclass(params):
        raise ValueError(
            f"default_params is a {type(params).__name__}: must be a flax.struct.dataclass"
        )
    try:
        space = env.observation_space(params)
        _, state = jax.eval_shape(lambda key: env.reset(key, params), jax.random.key(0))
    except Exception as error:
        raise ValueError(f"it cannot be reset: {type(error).__name__}: {error}") from error
    for part in jax.tree.leaves(tree(space)):
        is_array = part is space and hasattr(space, "shape") and hasattr(space, "dtype")
        if not (is_array or isinstance(part, spaces.Box | spaces.Discrete)):
            kind = type(part)
            raise ValueError(
                f"observations in a {kind.__module__}.{kind.__name__} are not supported: allowed "
                "are gymnax's Box and Discrete, and Dict and Tuple of them"
            )
    if _has_own_limit(type(env)):
        return
    for field, meaning, found in (
        (LIMIT, "the time limit", params),
        ("time", "the steps of this episode", state),
    ):
        if not hasattr(found, field):
            raise ValueError(
                f"{type(found).__name__} has no field {field!r}: add `{field}: int`, {meaning}, or "
                "define `is_truncated(state, params)` in the environment"
            )


def _has_own_limit(kind: type) -> bool:
    """Whether gymnax's methods, which use the fields, are not those that end episodes."""
    own = ("step", "is_truncated")
    return any(getattr(kind, each, None) != getattr(GymnaxEnvironment, each) for each in own)


def _sets_limit(env: type | Environment, params: PyTree) -> bool:
    """Whether a user's environment has a time limit that is not gymnax's default of one step."""
    own = [each for each in type(params).__mro__ if each is not GymnaxParams]
    is_declared = any(LIMIT in inspect.get_annotations(each) for each in own)
    kind = env if isinstance(env, type) else type(env)
    return is_declared or getattr(params, LIMIT, None) != 1 or _has_own_limit(kind)


def _argument(name: str, key: str, value: Any) -> Any:
    """Convert lists (from YAML) to tuples, so that they can be cached, and refuse large numbers."""
    if isinstance(value, list | tuple):
        return tuple(_argument(name, key, each) for each in value)
    is_number = isinstance(value, int | float) and not key.endswith("seed")
    if is_number and not abs(value) <= LARGEST_SIZE:
        raise ValueError(f"{name}: parameter {key} = {value!r} must be at most {LARGEST_SIZE}")
    return value


LIMIT = "max_steps_in_episode"
LARGEST_SIZE = 1024
"""Largest value of a constructor's argument; a grid has as many cells as its square."""
RANGES = {"slip_probability": (0.0, 1.0), LIMIT: (1, float("inf"))}
"""Allowed range of these parameters in every environment."""


def _checked(name: str, key: str, value: Any, *, default: Any) -> Any:
    """Convert a value to the type of the default, so that an override never changes a dtype.

    Raises:
        ValueError: if it is of another type, or out of range.
    """
    kind = next((each for each in (bool, int, float) if isinstance(default, each)), None)
    if kind is None:
        return value
    is_bool, is_number = isinstance(value, bool), isinstance(value, numbers.Real)
    fits = is_number and is_bool == (kind is bool)
    if not fits or (kind is int and not float(value).is_integer()):
        raise ValueError(f"{name}: parameter {key} = {value!r} must be of type {kind.__name__}")
    converted = kind(float(value))  # NumPy's scalars as well
    low, high = RANGES.get(key, (-float("inf"), float("inf")))
    if not low <= converted <= high:
        upper = "" if high == float("inf") else f" and at most {high:g}"
        raise ValueError(f"{name}: parameter {key} = {value!r} must be at least {low:g}{upper}")
    return converted
