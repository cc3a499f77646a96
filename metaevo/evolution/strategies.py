"""Build a `Strategy` from settings: evosax, programs, or a user-defined one."""

import dataclasses
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import distribution_based_algorithms

from metaevo.config import ConfigError, code, show
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict
from metaevo.evolution import evosax_strategy, genetic_programming
from metaevo.evolution.evosax_strategy import ALGORITHMS, UNPICKLING, EvosaxStrategy
from metaevo.evolution.genetic_programming import GeneticProgramming
from metaevo.evolution.problem import Evaluation, MetaProblem
from metaevo.evolution.strategy import Strategy, StrategyConfig
from purerl.custom import is_custom
from purerl.types import PyTree

GENETIC_PROGRAMMING = genetic_programming.NAME
REQUIRED = "init", "ask", "tell", "best", "current_sigma", "others", "check"


class GivenStrategy(StrategyConfig):
    """Settings of a strategy passed as an object, as config.yaml records them."""

    strategy: Strategy

    @classmethod
    def of(cls, strategy: Strategy) -> "GivenStrategy":
        """Return the settings of a strategy."""
        if isinstance(strategy, type):
            raise ConfigError(
                f"strategy = {show(strategy)}: must be an object, such as {strategy.__name__}(), "
                "not a class"
            )
        kind = type(strategy)
        name = f"{kind.__module__}:{kind.__qualname__}"
        _check_methods(f"strategy = {show(name)}", strategy)
        if not isinstance(getattr(strategy, "population_size", None), int):
            raise ConfigError(f"strategy = {show(name)}: has no population_size, an integer")
        own = {
            key: value
            for key, value in getattr(strategy, "__dict__", {}).items()
            if isinstance(value, bool | int | float)
        }
        named = {each.name for each in dataclasses.fields(cls)}
        known: PlainDict = {key: own.pop(key) for key in sorted(named & own.keys())}
        known["population_size"] = strategy.population_size  # of the object or its class
        config = cls(**known | {"algorithm": name, "settings": own})
        object.__setattr__(config, "strategy", strategy)
        return config


def make(
    config: StrategyConfig, solution: PyTree, problem: MetaProblem | None = None, **steps: Any
) -> Strategy:
    """Return the strategy of the settings for meta-parameters like `solution`.

    `steps`, `sigma` and `learning_rate`, override the settings and may be traced.
    """
    if isinstance(config, GivenStrategy):
        return config.strategy
    config = dataclasses.replace(config, **steps)
    name = config.algorithm
    if is_custom(name):
        return _construct(config)
    if name == GENETIC_PROGRAMMING:
        return GeneticProgramming(config, problem)
    if name not in ALGORITHMS:
        known = [*ALGORITHMS, GENETIC_PROGRAMMING]
        reason = "loads a pickle, which is unsafe" if name in UNPICKLING else "is not known"
        raise ConfigError(
            f"strategy.algorithm = {name!r} {reason}{of_value(name, known)}; known: "
            f"{', '.join(known)}, or FILE.py:CLASS or MODULE:CLASS"
        )
    return EvosaxStrategy(config, solution)


def checked(
    config: StrategyConfig, solution: PyTree, problem: MetaProblem | None = None
) -> Strategy:
    """Return the strategy of the settings after tracing a generation, without compilation."""
    strategy = make(config, solution, problem)
    method = ""

    def rehearse(key, steps, solution):
        nonlocal method
        own = make(config, solution, problem, **steps)
        method = "init"
        state = own.init(key, lambda key: solution)
        method = "ask"
        population, asked = own.ask(key, state)
        method = "tell"
        told = own.tell(key, population, Evaluation(jnp.zeros(size), {}), asked)
        method = "best"
        return population, state, told, own.best(told)

    size = strategy.population_size
    steps = {"sigma": np.float32(config.sigma), "learning_rate": np.float32(config.learning_rate)}
    try:
        population, state, told, best = jax.eval_shape(rehearse, jax.random.key(0), steps, solution)
    except Exception as error:
        if not method or not _is_own(config):
            raise ConfigError(evosax_strategy.refusal(config, error)) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"strategy.algorithm = {show(config.algorithm)}: {method} raises {reason}"
        ) from error
    many = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((size, *jnp.shape(leaf)), leaf.dtype), solution
    )
    for method, found, expected in (
        ("ask", population, many),
        ("tell", told, state),
        ("best", best, solution),
    ):
        if _shapes(found) != _shapes(expected):
            raise ConfigError(
                f"strategy.algorithm = {show(config.algorithm)}: {method} returns "
                f"{_shapes(found)}; must be {_shapes(expected)}"
            )
    return strategy


def _is_own(config: StrategyConfig) -> bool:
    """Return whether the user has defined the strategy."""
    return isinstance(config, GivenStrategy) or is_custom(config.algorithm)


def has_mean(config: StrategyConfig) -> bool:
    """Return whether the algorithm has a mean, which is then the result of a run."""
    return config.algorithm in distribution_based_algorithms or bool(_kind(config).has_mean)


def perturbs(config: StrategyConfig) -> bool:
    """Return whether the algorithm adds numbers to meta-parameters."""
    return bool(getattr(_kind(config), "perturbs", True))


def _kind(config: StrategyConfig) -> Any:
    """Return the class of the strategy, or the object that was given."""
    if isinstance(config, GivenStrategy):
        return config.strategy
    if is_custom(config.algorithm):
        return code.load("strategy.algorithm", config.algorithm)
    return GeneticProgramming if config.algorithm == GENETIC_PROGRAMMING else EvosaxStrategy


def _construct(config: StrategyConfig) -> Strategy:
    """Call a user-defined class with the settings that it accepts."""
    where = f"strategy.algorithm = {show(config.algorithm)}"
    cls = code.load("strategy.algorithm", config.algorithm)
    if not isinstance(cls, type):
        raise ConfigError(f"{where}: must be a class that derives from metaevo.Strategy")
    _check_methods(where, cls)
    accepted = inspect.signature(cls).parameters
    given = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    extra = given.pop("settings")
    del given["algorithm"]
    if "population_size" not in accepted:
        raise ConfigError(f"{where}: its constructor must take population_size")
    try:
        strategy: Strategy = cls(**{k: v for k, v in given.items() if k in accepted}, **extra)
    except Exception as error:
        raise ConfigError(evosax_strategy.refusal(config, error)) from error
    return strategy


def _check_methods(where: str, strategy: Any) -> None:
    missing = [name for name in REQUIRED if not callable(getattr(strategy, name, None))]
    missing += [] if hasattr(strategy, "has_mean") else ["has_mean"]
    missing += sorted(getattr(strategy, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(
            f"{where}: has no {', '.join(missing)}; derive from metaevo.Strategy and define init, "
            "ask, tell and best"
        )


def _shapes(tree: PyTree) -> PyTree:
    """Return the structure of a pytree with shapes and dtypes, for comparison and messages."""
    return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(jnp.shape(leaf))}", tree)
