"""The suite `learned-rules`: what learned rules cost beside hand-written ones, and others' code."""

import argparse
from typing import Any, NamedTuple

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import own
from experiments.benchmarks.tasks import WORK
from experiments.benchmarks.training import count_updates


class Case(NamedTuple):
    """A learner with a learned rule."""

    part: str
    """the component"""
    learner: str
    task: str
    agents: int
    hand_written: str
    """what the learner has in its place"""
    aims: dict[str, float]
    """how many times the frames of others ours should train on: `--external 'OPEN=...'`"""
    settings: dict[str, Any]
    """of the component"""


CASES = (
    Case("optimizer", "ppo", "CartPole-v1", 64, "Adam", {"Adam": 0.5}, {}),
    Case("open", "ppo", "Breakout-MinAtar", 8, "Adam", {"OPEN": 2.0}, {}),
    Case("lpg", "lpg", "GridWorlds", 8, "a2c", {"GROOVE": 2.0}, {"hidden_size": 256}),
)


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Training with a learned rule, against a hand-written one and the authors' OPEN and GROOVE."""
    comparison = Comparison("steps", "rule", "task", "agents")
    for case in CASES:
        if case.task not in options.tasks:
            continue
        work = WORK[case.learner, case.task]
        for agents in options.agents or [case.agents]:
            updates = count_updates(work, agents, options.frames)
            amount = {"task": case.task, "agents": agents, "updates": updates}
            plain = {"learner": case.learner, **amount}
            variants = {
                OURS: own("ours", part=case.part, settings=case.settings, **plain),
                case.hand_written: own("ours", **plain),
            }
            if case.part != "optimizer":
                variants |= externals(options, suite="learned-rules", **amount)
            comparison.case(
                variants, agents * updates * work.frames_per_update, options.repeats,
                case.part, case.task, agents, aims=dict.fromkeys(("cpu", "gpu"), case.aims),
            )  # fmt: skip
    return {"rows": comparison.rows, "failures": comparison.failures}
