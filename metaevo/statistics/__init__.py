"""Statistics to compare training runs: intervals, rank tests, and a single rule for verdicts.

The protocol of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021, arXiv 2108.13264): interquartile means, percentile bootstrap intervals
stratified by task, and probabilities of improvement. Higher scores are better; runs are redrawn
within their task only, and paired if the caller declares that they share seeds.

Scores are strata: a list of tasks, each an array [runs], with any number of runs on each.
`strata_of` converts a table [runs] or [runs, tasks] to strata; `summarise` and `compare` take
tables.
Everything is NumPy on the host, and random numbers have a fixed seed.

    >>> metaevo.statistics.compare([3.1, 2.9, 3.3, 3.0], [1.0, 1.2, 0.9, 1.1]).conclusion
    'better'
"""

from metaevo.statistics.intervals import Estimate as Estimate
from metaevo.statistics.intervals import Summary as Summary
from metaevo.statistics.intervals import estimate as estimate
from metaevo.statistics.intervals import flat_record as flat_record
from metaevo.statistics.intervals import mean_curve as mean_curve
from metaevo.statistics.intervals import pooled_iqm as pooled_iqm
from metaevo.statistics.intervals import probability_of_improvement as probability_of_improvement
from metaevo.statistics.intervals import summarise as summarise
from metaevo.statistics.ranks import holm as holm
from metaevo.statistics.ranks import rank_test as rank_test
from metaevo.statistics.ranks import signed_rank_test as signed_rank_test
from metaevo.statistics.scores import FloatArray as FloatArray
from metaevo.statistics.scores import Interval as Interval
from metaevo.statistics.scores import Strata as Strata
from metaevo.statistics.scores import fill_missing as fill_missing
from metaevo.statistics.scores import iqm as iqm
from metaevo.statistics.scores import strata_of as strata_of
from metaevo.statistics.verdict import Comparison as Comparison
from metaevo.statistics.verdict import Verdict as Verdict
from metaevo.statistics.verdict import compare as compare
from metaevo.statistics.verdict import compare_strata as compare_strata
from metaevo.statistics.verdict import verdict as verdict
