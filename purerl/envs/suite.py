"""Base of the adapters of environment suites: optional packages, clocks, pools of starts.

A suite is a package that an extra of the same name installs (`metaevo[brax]`). It is imported when
an environment is built. Environments are called `suite/name`.
"""

import contextlib
import dataclasses
import importlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnax.environments import spaces
from gymnax.environments.environment import Environment

from purerl.types import PyTree

SEEDS = range(2**32)


class Suite(NamedTuple):
    """A suite, as `make` uses it, without an import of the package."""

    names: tuple[str, ...]
    """names of its environments"""
    constructor: Callable[[str], Callable[..., "SuiteEnvironment"]]
    """from a name to the constructor of the environment, with arguments that can be overridden"""
    refused: Mapping[str, str] = MappingProxyType({})
    """names of the suite that are not supported, each with the reason"""


class SuiteParams(struct.PyTreeNode):
    """The parameters that all suites have. Traced."""

    max_steps_in_episode: int = 1000
    starts: Any = None
    """observations and states [pool, ...] in which episodes begin; None: the suite's own reset"""


class SuiteState(struct.PyTreeNode):
    """A suite's state with our clock."""

    inner: Environment
    """the suite's own state, without keys and without data that is only used for drawing"""
    time: jax.Array
    """[] int32 steps of this episode"""


class SuiteEnvironment(Environment):
    """An environment of a suite with gymnax's interface.

    A subclass says how the suite begins an episode and how it takes a step, without its time limit
    and without its resets: the clock is ours, so that a limit is a truncation and never a terminal
    state, and `info["final_observation"]` is what was seen before the reset.

    Args:
        name: the environment's, without the suite's.
        pool: episodes begin in one of so many starts, drawn once with `pool_seed`; None: the suite
            resets anew for each. A reset is computed at every step, whether an episode ends or not.
        pool_seed: of the starts.

    Raises:
        ValueError: for a pool smaller than 1, a seed that is none, and if the suite is not
            installed.
    """

    suite: str
    """name of the suite and of its extra"""
    planes: tuple[int, ...] | None = None
    """values that each channel of an image of symbols can take; None: observations are numbers"""

    def __init__(self, name: str, *, pool: int | None, pool_seed: int = 0):
        super().__init__()
        if pool is not None and (not isinstance(pool, int) or isinstance(pool, bool) or pool < 1):
            raise ValueError(f"pool = {pool!r} must be at least 1, or null for none")
        if not isinstance(pool_seed, int) or isinstance(pool_seed, bool) or pool_seed not in SEEDS:
            raise ValueError(f"pool_seed = {pool_seed!r} must be an integer of 0 .. {SEEDS[-1]}")
        self._name = f"{self.suite}/{name}"
        self.pool, self.pool_seed = pool, pool_seed
        self._starts: dict[Any, Any] = {}
        self._seen: jax.ShapeDtypeStruct | None = None

    def begin(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, Any]:
        """Return an observation and the suite's state: its own reset."""
        raise NotImplementedError

    def advance(
        self, key: jax.Array, inner: Environment, action: jax.Array, params: PyTree
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Return observation, state, reward, and whether the state is terminal: its own step."""
        raise NotImplementedError

    def prepared(self, params: PyTree) -> Any:
        """Return the parameters with a pool of starts, or as they are if there is to be none."""
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

    def draw_starts(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, Any]:
        """Return a pool of the suite's own starts [pool, ...], one a key split from `key`."""
        assert self.pool is not None
        keys = jax.random.split(key, self.pool)
        return jax.lax.map(lambda each: self.begin(each, params), keys, batch_size=16)

    @property
    def name(self) -> str:
        """`suite/name`."""
        return self._name

    def reset_env(self, key: jax.Array, params: PyTree) -> tuple[jax.Array, SuiteState]:
        """Begin an episode: in a start of the pool, each as likely, or in a new one."""
        with tolerant():
            if params.starts is None:
                obs, inner = self.begin(own_key(key), params)
            else:
                sizes = {len(leaf) for leaf in jax.tree.leaves(params.starts)}
                index = jax.random.randint(key, (), 0, min(sizes))
                obs, inner = jax.tree.map(lambda x: jnp.asarray(x)[index], params.starts)
        return obs, SuiteState(inner, jnp.int32(0))

    def step_env(self, key: jax.Array, state: SuiteState, action: Any, params: PyTree) -> tuple:
        """Step without a reset, see gymnax."""
        with tolerant():
            obs, inner, reward, terminated = self.advance(own_key(key), state.inner, action, params)
        reward, terminated = jnp.float32(reward), jnp.bool_(terminated)
        state = SuiteState(inner, state.time + 1)
        ask = getattr(self, "legal_actions", None)  # `purerl.parts.masks`
        info = {} if ask is None else {"action_mask": ask(state, params)}
        return obs, state, reward, terminated, info

    def observation_space(self, params: PyTree) -> spaces.Box:
        """A box of the suite's shape and dtype."""
        if self._seen is None:  # to trace a reset takes a second
            params = params.replace(starts=None)
            with tolerant():
                self._seen, _ = jax.eval_shape(
                    lambda key: self.begin(key, params), jax.random.key(0)
                )
        low, high = (0, max(self.planes) - 1) if self.planes else (-jnp.inf, jnp.inf)
        return spaces.Box(low, high, self._seen.shape, self._seen.dtype)


def own_key(key: jax.Array) -> jax.Array:
    """Return a key of JAX's own generator, which draws what `key` draws.

    Suites put keys into their states, which a scan carries: all must be of one type. Learners split
    theirs from keys of another type (`purerl.fast.threefry`).
    """
    data = jax.random.key_data(key)
    return jax.random.wrap_key_data(data, impl="threefry2x32") if data.shape[-1] == 2 else key


@contextlib.contextmanager
def tolerant() -> Iterator[None]:
    """Trace a suite's own code: let it warn, and promote ranks, as its authors chose."""
    with warnings.catch_warnings(), jax.numpy_rank_promotion("allow"):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Import or build what belongs to a suite; what it prints meanwhile is dropped."""
    with tolerant(), contextlib.redirect_stdout(io.StringIO()):
        yield


def imported(suite: str, module: str, version: str) -> Any:
    """Import a module of a suite.

    Args:
        suite: its package, and our extra.
        module: of the package.
        version: of the package; others have different tasks under the same names.

    Raises:
        ValueError: naming the extra, if the suite is not installed in that version.
    """
    install = f"pip install 'metaevo[{suite}]'"
    try:
        found = metadata.version(suite)
        with quiet():
            imported_module = importlib.import_module(module)
    except ModuleNotFoundError as error:  # metadata's error is one, too
        raise ValueError(f"{error.name} is not installed: {install}") from error
    if found != version:
        raise ValueError(f"{suite} {found} is installed, but its tasks are {version}'s: {install}")
    return imported_module
