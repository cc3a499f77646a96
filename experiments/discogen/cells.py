"""Rules side by side in their harness: a JSON file for each rule and environment, and the table."""

import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import metaevo
from experiments.discogen import modules

ENVIRONMENTS = "Breakout", "Freeway", "Asterix", "SpaceInvaders"
"""Theirs that have the discrete actions and the sizes of MinAtar."""
VERSION = "1.3.0"
"""Of their package."""
BASELINE = "ppo"
"""The name of their own modules, unchanged."""
LOWEST, HIGHEST = 1e-3, 1e-2
"""Their learning rates."""
HARNESS = Path(__file__).with_name("harness.py")
Cell = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured: the flags of the command.

    Raises:
        ConfigError: for an unknown environment, or a number that is too small.
    """

    rules: list[str]
    envs: list[str]
    seeds: int
    rates: int
    steps: float
    to: Path
    processes: int
    code: Sequence[str] = ()
    python: Path = Path(".venv-discogen/bin/python")

    def __post_init__(self) -> None:
        if unknown := [name for name in self.envs if name not in ENVIRONMENTS]:
            known = ", ".join(ENVIRONMENTS)
            raise metaevo.ConfigError(f"--envs {unknown[0]}: must be one of {known}")
        for name, least in {"seeds": 1, "rates": 1, "processes": 1, "steps": 8192}.items():
            if not (found := getattr(self, name)) >= least:
                raise metaevo.ConfigError(f"--{name} {found}: must be at least {least}")


def run(plan: Plan) -> list[Cell]:
    """Measure the agents that the files of a plan lack; return all cells.

    Raises:
        ConfigError: for an unknown rule, their package missing or of another version, or a folder
            with cells of other sizes or of a rule that has changed.
    """
    _check_package(plan.python)
    plan.to.mkdir(parents=True, exist_ok=True)
    folders: dict[str, list[str]] = {
        rule: [] if rule == BASELINE else [_exported(rule, plan.to / _slug(rule), plan.code)]
        for rule in plan.rules
    }
    paths, todo = [], []
    for environment, rule in itertools.product(plan.envs, plan.rules):
        paths.append(path := plan.to / f"{_slug(rule)}.{environment}.json")
        if any(None in row for row in _begun(plan, path, rule, environment)["evaluation"]):
            todo.append([str(path), *folders[rule]])
    if failed := _measure(plan, todo):
        raise metaevo.ConfigError(f"their harness failed, see above: {', '.join(failed)}")
    return [json.loads(path.read_text()) for path in paths]


def _measure(plan: Plan, todo: list[list[str]]) -> list[str]:
    """Run the harness on cells, some at a time; return the files of those that failed."""
    flags = "--xla_cpu_multi_thread_eigen=false" if plan.processes > 1 else ""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONWARNINGS": "ignore"}
    failed = []
    for first in range(0, len(todo), plan.processes):
        batch: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for arguments in todo[first : first + plan.processes]:
                command = [str(plan.python), str(HARNESS), *arguments]
                batch[arguments[0]] = subprocess.Popen(command, env=env)
            failed += [path for path, process in batch.items() if process.wait()]
        finally:
            for process in batch.values():  # also after a signal
                process.terminate()
    return failed


def _check_package(python: Path) -> None:
    command = "import importlib.metadata as m; print(m.version('discogen'))"
    try:
        found = subprocess.run([python, "-c", command], capture_output=True, text=True).stdout
    except OSError:
        found = ""
    if found.strip() != VERSION:
        has = f"has version {found.strip()}" if found.strip() else "is missing"
        raise metaevo.ConfigError(
            f"{python}: discogen {has}, must be {VERSION}; to install it: make discogen"
        )


def _exported(rule: str, folder: Path, code: Sequence[str]) -> str:
    """Return the folder with a rule's modules, which are the same as before if it exists."""
    with tempfile.TemporaryDirectory() as scratch:
        written = modules.export(rule, new := Path(scratch) / "modules", code=code)
        if not folder.exists():
            shutil.copytree(new, folder)
        known = {path.name: path.read_bytes() for path in folder.glob("*.*")}
        if any(known.get(path.name) != path.read_bytes() for path in written):
            raise metaevo.ConfigError(f"--to: {rule} is not the rule of {folder}: must be new")
    return str(folder)


def _begun(plan: Plan, path: Path, rule: str, environment: str) -> Cell:
    """Return a cell as far as it is measured, from its file, which is made if there is none."""
    rates = np.linspace(LOWEST, HIGHEST, plan.rates).tolist()
    fixed: Cell = {
        "rule": rule, "environment": environment, "steps": plan.steps, "seeds": plan.seeds,
        "rates": rates,
    }  # fmt: skip
    if not path.exists():
        empty = [[None] * plan.seeds for _ in rates]
        path.write_text(json.dumps({**fixed, "evaluation": empty, "training": empty, "seconds": 0}))
    found: Cell = json.loads(path.read_text())
    for name, value in fixed.items():
        if found[name] != value:
            raise metaevo.ConfigError(f"--to: {path} has {name} = {found[name]}: must be {value}")
    return found


def _slug(text: str) -> str:
    return re.sub(r"\W+", "-", text).strip("-")


def table(cells: Iterable[Cell]) -> str:
    """Return a table in Markdown: means over seeds and 95% intervals, by both ways to choose."""
    rows = [
        "| environment | rule | their protocol | rate | rate of the other seeds | training |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for cell in cells:
        scores, training = (np.array(cell[name], float) for name in ("evaluation", "training"))
        best = int(np.argmax(scores.mean(axis=1)))
        clean = _estimate(chosen_by_others(scores)) if cell["seeds"] > 1 else "-"
        best_rate, ours = cell["rates"][best], _estimate(scores[best])
        rows.append(
            f"| {cell['environment']} | `{cell['rule']}` | {ours} | {best_rate:.4f} | {clean} "
            f"| {_estimate(training[best])} |"
        )
    return "\n".join(rows)


def chosen_by_others(scores: np.ndarray) -> np.ndarray:
    """Return each seed's score [S], of [R, S], at the best rate by the mean of the others."""
    others = scores.sum(axis=1, keepdims=True) - scores
    return scores[np.argmax(others, axis=0), np.arange(scores.shape[1])]


def _estimate(scores: np.ndarray) -> str:
    mean, low, high = (each.item() for each in metaevo.statistics.mean_curve(scores[:, None]))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"
