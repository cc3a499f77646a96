"""Base class of the adapters to environment suites: optional imports, time limits, start pools.

A suite is a package that an extra of the same name installs (`metaevo[brax]`). It is imported when
an environment is built. Its environments are named `suite/name`.
"""

import contextlib
import dataclasses
import importlib
import io
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.types import PyTree

SEEDS = range(2**32)
NEVER = 2**30
"""Replaces a suite's own time limit, so that it never ends an episode."""


class Suite(NamedTuple):
    """A suite as `make` uses it; the package is not imported."""

    names: tuple[str, ...]
    """names of its environments"""
    constructor: Callable[[str], Callable[..., "SuiteEnvironment"]]
    """maps a name to the environment's constructor; overrides set the constructor's arguments"""


class SuiteParams(struct.PyTreeNode):
    """Parameters common to all suites. Traced."""

    max_steps_in_episode: int = 1000
    starts: Any = None
    """observations and states [pool, ...] in which episodes begin; None: the suite's own reset"""


class SuiteState(struct.PyTreeNode):
    """A suite's state with the number of steps."""

    inner: Environment
    """the suite's own state, without keys and without data that is only used for drawing"""
    time: jax.Array
    """[] int32 steps of this episode"""


class SuiteEnvironment(Environment):
    """An environment of a suite with gymnax's interface.

    A subclass sets `_params`, the default parameters, and implements `begin` and `advance`: the
    suite's reset and step, without its time limit and automatic resets. This class counts the
    steps, so a time limit is a truncation and never a terminal state, and
    `info["final_observation"]` is the observation before the reset.

    Args:
        name: name of the environment, without the suite.
        pool: number of starts, drawn once with `pool_seed`, in which episodes begin; None: every
            episode uses a new reset, which is computed at every step, even within an episode.
        pool_seed: seed of the starts.

    Raises:
        ValueError: if the pool is smaller than 1, the seed is invalid, or the suite is not
            installed.
    """

    suite: str
    """name of the suite and of its extra"""
    name = ""
    """`suite/name`"""
    planes: tuple[int, ...] | None = None
    """number of values of each channel of a symbolic image; None for numeric observations"""
    _params: Any

    def __init__(self, name: str, *, pool: int | None, pool_seed: int = 0):
        super().__init__()
        if pool is not None and (not isinstance(pool, int) or isinstance(pool, bool) or pool < 1):
            raise ValueError(f"pool = {pool!r} must be at least 1, or null for none")
        if not isinstance(pool_seed, int) or isinstance(pool_seed, bool) or pool_seed not in SEEDS:
            raise ValueError(f"pool_seed = {pool_seed!r} must be an integer of 0 .. {SEEDS[-1]}")
        self.name = f"{self.suite}/{name}"
        self.pool, self.pool_seed = pool, pool_seed
        self._starts: dict[Any, Any] = {}
        self._seen: jax.ShapeDtypeStruct | None = None

    def begin(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, Any]:
        """Reset the suite's environment, and return the observation and the suite's state."""
        raise NotImplementedError

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: PyTree
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Step the suite's environment, and return observation, state, reward and terminal flag."""
        raise NotImplementedError

    def prepared(self, params: PyTree) -> Any:
        """Return the parameters with a pool of starts, or unchanged if `pool` is None."""
        if self.pool is None:
            return params
        values = (getattr(params, field.name) for field in dataclasses.fields(params))
        known = tuple(value for value in values if isinstance(value, int | float))
        if known not in self._starts:
            with jax.ensure_compile_time_eval(), tolerant():
                draw = jax.jit(self.draw_starts)
                starts = draw(jax.random.key(self.pool_seed), params.replace(starts=None))
            self._starts[known] = jax.device_get(starts)
        return params.replace(starts=self._starts[known])

    def without_pool(self, params: PyTree) -> Any:
        """Return parameters with which every reset is new; see `purerl.acting.reset`."""
        return params.replace(starts=None)

    def draw_starts(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, Any]:
        """Draw a pool of starts [pool, ...] from the suite's resets, with keys split from `key`."""
        assert self.pool is not None
        keys = jax.random.split(key, self.pool)
        return jax.lax.map(lambda each: self.begin(each, params), keys, batch_size=16)

    @property
    def default_params(self) -> Any:
        """Default parameters, with the suite's values."""
        return self._params

    def reset_env(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, SuiteState]:
        """Begin an episode in a start drawn uniformly from the pool, or in a new one."""
        with tolerant():
            if params.starts is None:
                obs, inner = self.begin(own_key(key), params)
            else:
                sizes = {len(leaf) for leaf in jax.tree.leaves(params.starts)}
                index = jax.random.randint(key, (), 0, min(sizes))
                obs, inner = jax.tree.map(lambda x: jnp.asarray(x)[index], params.starts)
        return obs, SuiteState(inner, jnp.int32(0))

    def step_env(
        self, key: jax.Array, state: SuiteState, action: jax.Array, params: PyTree
    ) -> tuple:
        """Step without an automatic reset; see gymnax."""
        with tolerant():
            obs, inner, reward, terminated = self.advance(own_key(key), state.inner, action, params)
        reward, terminated = jnp.float32(reward), jnp.bool_(terminated)
        state = SuiteState(inner, state.time + 1)
        return obs, state, reward, terminated, {}

    def action_space(self, params: PyTree = None) -> Any:
        """Return `num_actions` actions; a suite with continuous actions overrides it."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: PyTree) -> spaces.Box:
        """Return a box with the shape and dtype of the suite's observations."""
        if self._seen is None:  # tracing a reset takes a second
            params = params.replace(starts=None)
            with tolerant():
                self._seen, _ = jax.eval_shape(
                    lambda key: self.begin(key, params), jax.random.key(0)
                )
        low, high = (0, max(self.planes) - 1) if self.planes else (-jnp.inf, jnp.inf)
        return spaces.Box(low, high, self._seen.shape, self._seen.dtype)


def own_key(key: jax.Array) -> jax.Array:
    """Convert a key to JAX's default generator; it draws the same numbers as `key`.

    Suites store keys in their states, which a scan carries, so all keys must have the same type.
    Learners split keys of a different type (`purerl.fast.draws`).
    """
    data = jax.random.key_data(key)
    return jax.random.wrap_key_data(data, impl="threefry2x32") if data.shape[-1] == 2 else key


@contextlib.contextmanager
def tolerant() -> Iterator[None]:
    """Allow warnings and rank promotion in a suite's own code."""
    with warnings.catch_warnings(), jax.numpy_rank_promotion("allow"):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard the output of a suite while it is imported or built."""
    with tolerant(), contextlib.redirect_stdout(io.StringIO()):
        yield


def imported(suite: str, module: str, version: str) -> Any:
    """Import a module of a suite.

    Raises:
        ValueError: if this version of the suite is not installed (others have different tasks
            under the same names); the message names the extra.
    """
    install = f"pip install 'metaevo[{suite}]'"
    try:
        found = metadata.version(suite)
        with quiet():
            imported_module = importlib.import_module(module)
    except ModuleNotFoundError as error:  # includes `PackageNotFoundError`
        raise ValueError(f"{error.name} is not installed: {install}") from error
    if found != version:
        raise ValueError(f"{suite} {found} is installed, but its tasks are {version}'s: {install}")
    return imported_module
