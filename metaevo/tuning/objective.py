"""One number for a trial: a statistic over the scores of its seeds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.statistics import iqm


def objective(scores: np.ndarray, config: Any) -> float | None:
    """Return the statistic that the settings name, or None if a score is not known.

    Args:
        scores: of one trial [seeds]; not finite where training diverged or no episode has ended.
        config: a `SweepConfig`.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if not np.all(np.isfinite(scores)):
        return None
    if config.statistic == "mean":
        return float(np.mean(scores))
    if config.statistic == "iqm":
        return iqm(scores)
    return float(np.quantile(scores, config.quantile))


def traced(scores: jax.Array, config: Any) -> jax.Array:
    """Return the same statistic of finite scores [seeds] inside a compiled function."""
    if config.statistic == "iqm":
        cut = scores.shape[-1] // 4
        return jnp.mean(jnp.sort(scores)[cut : scores.shape[-1] - cut])
    if config.statistic == "quantile":
        return jnp.quantile(scores, config.quantile)
    return jnp.mean(scores)
