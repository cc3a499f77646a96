"""`make`: from an environment's name and overrides to `(env, env_params)`."""

import dataclasses
import difflib
import inspect
import numbers
from functools import cache
from typing import Any, Literal, get_args

import gymnax
from gymnax import registration

from purerl.envs.doors import Doors
from purerl.envs.features import Features
from purerl.envs.grid_world import GridWorld
from purerl.envs.grid_worlds import GridWorlds
from purerl.envs.state_index import with_state_index

Observations = Literal["auto", "flat", "raw", "index"]

OWN: dict[str, type] = {"GridWorld": GridWorld, "GridWorlds": GridWorlds, "Doors": Doors}
"""The environments of this package; all others are gymnax's."""


def names() -> list[str]:
    """Return the names that `make` knows, our own first."""
    return [*OWN, *(name for name in gymnax.registered_envs if name not in OWN)]


def make(name: str, *, observations: Observations = "auto", **overrides: Any) -> tuple[Any, Any]:
    """Build an environment and its (traced) parameters.

    Observations come out as float32 arrays: with `auto` images [height, width, channels] keep
    their shape and everything else becomes a vector (a discrete observation one-hot), with `flat`
    images are flattened as well. With `raw` they are what the environment gives, with `index` the
    number of the state, for tabular learners.

    Overrides are fields of the environment's parameters (`max_steps_in_episode=200`) or arguments
    of its constructor (`size=10` for DeepSea-bsuite). Calls with equal arguments return the same
    environment object, so that compiled functions are shared.

    Raises:
        ValueError: for an unknown name (close names are listed), an unknown override (those that
            exist are listed) or one of the wrong type, for an environment that needs data which
            cannot be downloaded, and for `index` where states have no number.
    """
    if observations not in get_args(Observations):
        allowed = ", ".join(get_args(Observations))
        raise ValueError(f"observations = {observations!r} must be one of {allowed}")
    if name not in names():
        by_lower_case = {known.lower(): known for known in names()}
        matches = difflib.get_close_matches(str(name).lower(), by_lower_case, n=4, cutoff=0.4)
        close = [by_lower_case[match] for match in matches]
        hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(names())}"
        raise ValueError(f"unknown environment {name!r}; {hint}")

    constructor = list(inspect.signature(_constructor(name)).parameters)
    constructor_overrides = {
        key: _hashable(value) for key, value in overrides.items() if key in constructor
    }
    for key, value in constructor_overrides.items():
        if not key.endswith("seed") and not _is_small(value):
            raise ValueError(f"{name}: parameter {key} = {value!r} must be at most {LARGEST_SIZE}")
    try:
        env, params = _make(name, observations, tuple(sorted(constructor_overrides.items())))
    except (TypeError, ValueError, OSError) as error:
        raise ValueError(f"cannot build environment {name!r}: {error}") from error

    fields = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    replacements = {}
    for key, value in overrides.items():
        if key in constructor_overrides:
            continue
        if key not in fields:
            raise ValueError(
                f"{name} has no parameter {key!r}; it has: {', '.join([*fields, *constructor])}"
            )
        replacements[key] = _checked(name, key, value, default=fields[key])
        _check_range(name, key, replacements[key])
    return env, params.replace(**replacements)


@cache
def _make(name: str, observations: Observations, kwargs: tuple) -> tuple[Any, Any]:
    if name in OWN:
        env = OWN[name](**dict(kwargs))
        params = env.default_params
    else:
        env, params = gymnax.make(name, **dict(kwargs))
    if observations == "raw":
        return env, params
    if observations == "index":
        return with_state_index(env, params), params
    return Features(env, flat=observations == "flat"), params


def _constructor(name: str) -> Any:
    return OWN[name] if name in OWN else registration._registry[name]


def _hashable(value: Any) -> Any:
    """Return lists, as YAML gives them, as tuples, also inside others: the cache needs it."""
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _is_small(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_small, value))
    return not isinstance(value, int | float) or abs(value) <= LARGEST_SIZE


LARGEST_SIZE = 1024
"""What an argument of a constructor may be at most: the cells of a grid are its square."""
RANGES = {"slip_probability": (0.0, 1.0), "max_steps_in_episode": (1, float("inf"))}
"""What parameters of these names may be, whatever the environment."""


def _check_range(name: str, key: str, value: Any) -> None:
    low, high = RANGES.get(key, (-float("inf"), float("inf")))
    if isinstance(value, int | float) and not low <= value <= high:
        upper = "" if high == float("inf") else f" and at most {high:g}"
        raise ValueError(f"{name}: parameter {key} = {value!r} must be at least {low:g}{upper}")


def _checked(name: str, key: str, value: Any, *, default: Any) -> Any:
    """Return the value in the type of the default, so that an override never changes a dtype."""
    if not isinstance(default, bool | int | float):
        return value
    if isinstance(default, bool) or isinstance(value, bool):
        if isinstance(default, bool) and isinstance(value, bool):
            return value
    elif isinstance(value, numbers.Real):  # NumPy's scalars too
        number = float(value)
        if isinstance(default, float):
            return number
        if number.is_integer():
            return int(number)
    raise ValueError(
        f"{name}: parameter {key} = {value!r} must be of type {type(default).__name__}"
    )
