"""Statistics to compare training runs: intervals, rank tests, and a single rule for verdicts.

The protocol of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021, arXiv 2108.13264): interquartile means, percentile bootstrap intervals
stratified by task, and probabilities of improvement. Higher scores are better; runs are redrawn
within their task only, and paired if the caller declares that they share seeds.

Scores are strata: a list of tasks, each an array [runs], with any number of runs on each.
`strata_of` converts a table [runs] or [runs, tasks] to strata; `summarise` and `compare` take
tables.
Everything is NumPy on the host, and random numbers have a fixed seed.
"""

from metaevo.statistics.curves import mean_curve, performance_profile
from metaevo.statistics.evolutions import Together, expanded, mean_of_evolutions, together
from metaevo.statistics.intervals import (
    Estimate,
    Summary,
    estimate,
    optimality_gap,
    pooled_iqm,
    probability_of_improvement,
    summarise,
)
from metaevo.statistics.ranks import (
    MOST_RUNS,
    POWER,
    holm,
    needed_runs,
    rank_test,
    signed_rank_test,
    smallest_p,
)
from metaevo.statistics.scores import FloatArray, Interval, Strata, fill_missing, iqm, strata_of
from metaevo.statistics.verdict import (
    Comparison,
    Contrast,
    Strongest,
    Verdict,
    against_strongest,
    compare,
    contrast,
    verdict,
)

__all__ = [
    "MOST_RUNS",
    "POWER",
    "Comparison",
    "Contrast",
    "Estimate",
    "FloatArray",
    "Interval",
    "Strata",
    "Strongest",
    "Summary",
    "Together",
    "Verdict",
    "against_strongest",
    "compare",
    "contrast",
    "estimate",
    "expanded",
    "fill_missing",
    "holm",
    "iqm",
    "mean_curve",
    "mean_of_evolutions",
    "needed_runs",
    "optimality_gap",
    "performance_profile",
    "pooled_iqm",
    "probability_of_improvement",
    "rank_test",
    "signed_rank_test",
    "smallest_p",
    "strata_of",
    "summarise",
    "together",
    "verdict",
]
