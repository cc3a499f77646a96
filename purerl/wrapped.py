"""Environments in wrappers, whose parameters may hold those of the wrapped environment."""

from collections.abc import Callable
from typing import Any

from purerl.types import Environment, EnvParams


def innermost(env: Environment, params: EnvParams = None) -> tuple[Environment, Any]:
    """Return an environment without its wrappers, and its own part of the parameters."""
    while (inner := getattr(env, "env", None)) is not None:
        if params is not None and hasattr(env, "inner"):
            params = env.inner(params)
        env = inner
    return env, params


def changed(
    env: Environment, params: EnvParams, change: Callable[[Environment, EnvParams], EnvParams]
) -> Any:
    """Return parameters with others of the innermost environment: `change(innermost, its own)`."""
    inner = getattr(env, "env", None)
    if inner is None:
        return change(env, params)
    if not hasattr(env, "with_inner"):
        return changed(inner, params, change)
    return env.with_inner(params, changed(inner, env.inner(params), change))
