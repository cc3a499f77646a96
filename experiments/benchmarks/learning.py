"""The suite `learning`: whether agents learn as well as with another commit."""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import Table
from experiments.benchmarks.compiling import files_of
from experiments.benchmarks.machine import ROOT
from experiments.benchmarks.processes import BenchmarkError, progress

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
            ours, theirs = pool.map(lambda root: _train(root, arguments), (ROOT, other))  # noqa: B023
            for part, scores in ours.items():
                before = theirs[part]
                summaries = [statistics.summarise(each) for each in (scores, before)]
                difference = statistics.iqm(scores) - statistics.iqm(before)
                low, high = statistics.difference_interval(scores, before)
                rows.append({"task": task, "part": part, "ours": scores, "theirs": before})
                cells = [f"{each.iqm:.2f} [{each.interval[0]:.2f}, {each.interval[1]:.2f}]"
                         for each in summaries]  # fmt: skip
                table.row(task, part, *cells, f"{difference:+.2f} [{low:+.2f}, {high:+.2f}]")
    return {"rows": rows}


def _train(root: Path, arguments: list[str]) -> dict[str, list[float]]:
    """Train in a new process with the packages in a folder; return every part's scores."""
    command = [sys.executable, str(SCRIPT), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"training fails in {root}: {reason}")
    result = json.loads(done.stdout.splitlines()[-1])
    if not Path(result["package"]).is_relative_to(root):
        raise BenchmarkError(f"trained with the wrong package, {result['package']}")
    return dict(result["scores"])
