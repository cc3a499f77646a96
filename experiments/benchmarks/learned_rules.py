"""The suite `learned-rules`: what a learned optimizer costs beside Adam, and others' code."""

import argparse
from typing import Any

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import own
from experiments.benchmarks.tasks import WORK
from experiments.benchmarks.training import count_updates

CASES = (
    ("optimizer", "CartPole-v1", 64),
    ("open", "Breakout-MinAtar", 8),
    ("open", "CartPole-v1", 64),
)
"""Component, task of PPO, and number of agents."""
AIMS = {"optimizer": {"Adam": 0.5}, "open": {"OPEN": 2.0}}
"""How many times the frames of others ours should train on; OPEN: `--external 'OPEN=...'`."""


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Training PPO with a learned optimizer, against our Adam and the authors' OPEN."""
    comparison = Comparison("steps", "optimizer", "task", "agents")
    for optimizer, task, agents in CASES:
        if task not in options.tasks:
            continue
        work = WORK["ppo", task]
        for count in options.agents or [agents]:
            updates = count_updates(work, count, options.frames)
            arguments = {"learner": "ppo", "task": task, "agents": count, "updates": updates}
            variants = {OURS: own("ours", optimizer=optimizer, **arguments)}
            variants["Adam"] = own("ours", **arguments)
            if optimizer == "open":
                variants |= externals(
                    options, suite="learned-rules", task=task, agents=count, updates=updates
                )
            amount = count * updates * work.frames_per_update
            aims = dict.fromkeys(("cpu", "gpu"), AIMS[optimizer])
            comparison.case(
                variants, amount, options.repeats, optimizer, task, count, aims=aims
            )  # fmt: skip
    return {"rows": comparison.rows, "failures": comparison.failures}
