"""Verdict on rules that are judged where they were not evolved."""

from metaevo.runs.schema import Carried, HeldOut, Judgement, Together

NOT_WORSE = 0.1
"""A rule is not worse if the whole interval of its difference from the best hand-written one is
above minus this, on the scale from 0 (random play) to 1 (the tuned reference)."""


def carried(pooled: HeldOut) -> Carried:
    """Return the verdict on rules that are judged where they were not evolved.

    Args:
        pooled: normalised scores of several tasks; of several evolutions, their mean is judged.
    """
    return carried_by(pooled.get("together", pooled["against_best"]))


def carried_by(judged: Judgement | Together) -> Carried:
    """Return the verdict on one rule, or on several together, on pooled normalised scores."""
    if judged["conclusion"] == "undecided" and judged["difference_interval"][0] > -NOT_WORSE:
        return "not worse"
    return judged["conclusion"]
