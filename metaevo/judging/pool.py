"""The settings that contenders try: points of a search space, fixed before any training.

A space maps names of hyperparameters to ranges, as in a YAML file:

    {"learning_rate": {"log_uniform": [1e-3, 1]}, "epsilon": {"choice": [0.0, 0.05]}}
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metaevo.statistics.scores import FloatArray

KINDS = "uniform", "log_uniform", "integer", "log_integer", "choice"
DIMENSIONS = 64
"""Maximum number of hyperparameters in a space."""


def pool(space: Mapping[str, Any], points: int, seed: int) -> FloatArray:
    """Return points of a space [points, hyperparameters] with low discrepancy.

    A scrambled Sobol sequence (Owen 1998). Its columns depend on the seed and on their position
    only, so contenders with other ranges, or with further hyperparameters at the end, try settings
    at the same quantiles of their ranges.

    Raises:
        ValueError: a range that is not `uniform`, `log_uniform`, `integer`, `log_integer` or
            `choice` with numbers in the right order; or too many hyperparameters.
    """
    from scipy.stats import qmc  # takes half a second, which scripts that only train need not wait

    if len(space) > DIMENSIONS:
        raise ValueError(f"space: {len(space)} hyperparameters; at most {DIMENSIONS} are supported")
    bits = math.ceil(math.log2(max(points, 1)))
    fractions = qmc.Sobol(DIMENSIONS, seed=seed).random_base2(bits)[:points]
    rules = zip(space.items(), fractions.T, strict=False)
    columns = [_column(name, rule, column) for (name, rule), column in rules]
    return np.stack(columns, axis=1) if columns else np.empty((points, 0))


def finalists(screening: ArrayLike, count: int) -> np.ndarray:
    """Return the indices [count] of the settings in the final, the untuned setting first.

    The others have the highest mean scores on the screening seeds, best first. A setting under
    which an agent has no score comes last.

    Args:
        screening: scores [settings, seeds]; setting 0 is untuned, NaN is no score.
        count: number of finalists; at most as many as there are settings.
    """
    totals = np.asarray(screening, dtype=np.float64).sum(axis=1)
    totals = np.where(np.isfinite(totals), totals, -np.inf)
    order = 1 + np.argsort(-totals[1:], kind="stable")
    return np.concatenate([[0], order[: count - 1]])


def _column(name: str, rule: Any, fractions: FloatArray) -> FloatArray:
    """Return the values of a hyperparameter at fractions in [0, 1) of its range."""
    if not isinstance(rule, Mapping):
        rule = {"choice": rule}
    kinds = [kind for kind in rule if kind != "step"]
    if len(kinds) != 1 or kinds[0] not in KINDS:
        raise ValueError(f"space.{name} = {rule}: must have one of {', '.join(KINDS)}")
    (kind,) = kinds
    try:
        values, step = np.array(rule[kind], dtype=float), float(rule.get("step", 1))
    except (TypeError, ValueError):
        raise ValueError(f"space.{name} = {rule}: must have numbers") from None
    if kind == "choice":
        if values.ndim != 1 or not len(values):
            raise ValueError(f"space.{name} = {rule}: must be a list of at least one number")
        return values[(fractions * len(values)).astype(int)]
    is_log = kind.startswith("log_")
    if values.shape != (2,) or not values[0] < values[1] or (is_log and values[0] <= 0):
        above = " above 0" if is_log else ""
        raise ValueError(f"space.{name} = {rule}: must have two numbers{above}, the lower first")
    low, high = values
    if kind.endswith("uniform"):
        return _between(low, high, fractions, is_log)
    found = _between(low - step / 2, high + step / 2, fractions, is_log)  # equal shares
    return np.clip(low + step * np.floor((found - low) / step + 0.5), low, high)


def _between(low: float, high: float, fractions: FloatArray, is_log: bool) -> FloatArray:
    if is_log:
        return np.exp(np.log(low) + fractions * np.log(high / low))
    return low + fractions * (high - low)
