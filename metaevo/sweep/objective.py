"""One number for a trial: a statistic over the scores of its seeds."""

from typing import Any

import numpy as np

from metaevo.statistics import iqm


def objective(scores: np.ndarray, config: Any) -> float | None:
    """Return the statistic that the settings name, or None if any seed diverged.

    Args:
        scores: of one trial [seeds]; not finite where training diverged.
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
