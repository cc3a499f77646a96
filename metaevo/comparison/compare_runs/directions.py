"""Whether high or low values of a metric are better."""

import re

from purerl.metrics import BETTER, Direction

EVALUATION = "evaluation"
"""The metric that stands for the scores of evaluation.json."""
_OURS: dict[str, Direction | None] = {
    **BETTER,
    # of a training
    "mean_return": "higher",
    "low": "higher",
    "high": "higher",
    "episodes": None,
    "diverged": "lower",
    # of an evolution
    "final_return": "higher",
    "reward_per_step": "higher",
    "fitness_mean": "higher",
    "fitness_best": "higher",
    "fitness_of_mean": "higher",
    "fitness_low": "higher",
    "fitness_high": "higher",
    "fitness_std": None,
    "tied": None,
    "sigma": None,
    # of a sweep
    "value": "higher",
    "best_value": "higher",
    "fraction": None,
    EVALUATION: "higher",
}
_OF_OTHERS = re.compile(r"(^|_)(returns?|rewards?|fitness|score|success)$|^ep_rew_mean$")
"""How metrics of other programs end of which more is better."""


def direction(metric: str) -> Direction | None:
    """Which values of a metric are better; None if neither, or if it is not known."""
    name = metric.rpartition("/")[2]
    if name in _OURS:
        return _OURS[name]
    return "higher" if _OF_OTHERS.search(name) else None
