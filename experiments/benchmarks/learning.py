"""The suite `learning`: whether agents learn as well as with another commit."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from experiments.benchmarks.commits import files_of, run_with
from experiments.benchmarks.comparison import Table
from experiments.benchmarks.machine import ROOT
from experiments.benchmarks.processes import progress

STEPS = {"CartPole-v1": 500_000, "Breakout-MinAtar": 500_000}
"""Environment steps of one agent."""
SCRIPT = Path(__file__).resolve().parent / "learn_one.py"


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Mean returns of PPO's training, here and in another commit, with 95% intervals."""
    from metaevo import statistics

    rows, table = [], Table(
        "task", "part of training", "here: IQM [95%]", f"{options.against}: IQM [95%]",
        "difference [95%]",
    )  # fmt: skip
    with files_of(options.against) as other, ThreadPoolExecutor(2) as pool:
        for task in options.tasks:
            steps = options.agent_steps or STEPS[task]
            progress(f"{task}: {options.seeds} seeds x {steps:,} steps, twice")
            arguments = [task, str(steps), str(options.seeds)]
            results = pool.map(
                lambda folder: run_with(folder, SCRIPT, *arguments),  # noqa: B023
                (ROOT, other),
            )
            ours, theirs = (result["scores"] for result in results)
            for part, scores in ours.items():
                before = theirs[part]
                summaries = [statistics.summarise(each) for each in (scores, before)]
                compared = statistics.compare(scores, before)
                difference, (low, high) = compared.difference, compared.difference_interval
                rows.append({"task": task, "part": part, "ours": scores, "theirs": before})
                cells = [f"{each.iqm:.2f} [{each.interval[0]:.2f}, {each.interval[1]:.2f}]"
                         for each in summaries]  # fmt: skip
                table.row(task, part, *cells, f"{difference:+.2f} [{low:+.2f}, {high:+.2f}]")
    return {"rows": rows}
