"""Measure rules again on the benchmark of generality, with other and more agents.

python experiments/remeasure.py adam schedule_free --tasks cartpole acrobot

The benchmark's random keys are the same for all rules, two agents choose a rule's learning rate on
a task, and eight are scored. So a high score can be due to these keys. This script uses other keys
and scores 32 agents. Random play and the reference are not measured again.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from metaevo.evolution import devices

if __name__ == "__main__":  # before anything starts JAX
    devices.setup()

import jax

from experiments.benchmarks.tables import Table
from metaevo import statistics
from metaevo.comparison.generality.judge import judge, prepare
from metaevo.config import exit_on_config_error

KEYS = 100
"""Replaces a task's version, which is part of its random keys."""


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Measure every rule, and print its scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", nargs="+", metavar="RULE", help="a rule for `metaevo generality`")
    parser.add_argument("--tasks", nargs="+", help="by default all")
    parser.add_argument("--seeds", type=int, default=32, help="scored agents (32)")
    args = parser.parse_args(argv)
    if args.seeds < 1:
        parser.error("--seeds: must be at least 1")
    jobs = {rule: prepare(rule, tasks=args.tasks, learning_rates=None) for rule in args.rules}
    table = Table("rule", "score", *next(iter(jobs.values())).tasks)
    for rule, job in jobs.items():
        tasks = {name: replace(each, since=KEYS) for name, each in job.benchmark.tasks.items()}
        result = judge(
            job._replace(benchmark=replace(job.benchmark, tasks=tasks, seeds=args.seeds))
        )
        score = statistics.estimate([each.normalised for each in result.tasks])
        low, high = score.interval
        own = {each.task: f"{each.score.value:.2f}" for each in result.tasks}
        shown = (own.get(task, "-") for task in jobs[args.rules[0]].tasks)
        jax.clear_caches()  # hundreds of programs exceed the mappings that a process may have
        table.row(rule, f"{score.value:.2f} [{low:.2f}, {high:.2f}]", *shown)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
