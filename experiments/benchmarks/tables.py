"""Markdown tables, printed row by row, and the files in docs/results with the machine."""

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import platform
import shlex
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import metaevo

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy", "gymnasium", "torch",
)  # fmt: skip
Cell = str | int | float | None


class Table:
    """A table; its first column is aligned left, others right."""

    def __init__(self, *columns: str):
        """Print the head."""
        self.columns, self.rows = columns, list[list[str]]()
        _print(["", *columns, ""])
        _print(["", "---", *["---:"] * (len(columns) - 1), ""])

    def row(self, *cells: Cell) -> None:
        """Print a row."""
        assert len(cells) == len(self.columns), cells
        self.rows.append([_text(cell) for cell in cells])
        _print(["", *self.rows[-1], ""])


def _print(cells: list[str]) -> None:
    print(" | ".join(cells).strip(), flush=True)


def _text(cell: Cell) -> str:
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell if isinstance(cell, str) else number(cell)


def number(value: float) -> str:
    """Format a value with three significant digits and commas between thousands."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def interval(middle: float, low: float, high: float) -> str:
    """Format a value and the ends around it."""
    return f"{number(middle)} [{number(low)}, {number(high)}]"


class Parser(argparse.ArgumentParser):
    """A parser that answers a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        """End the process with the message, as `metaevo` does."""
        self.exit(2, f"error: {' '.join(message.split())}\n")


def git(root: Path, *arguments: str) -> str:
    """Return what git answers in a folder; an empty text if it fails."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def machine() -> dict[str, Any]:
    """Return the processor, the GPUs and versions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    found = {"processor": [*models, platform.machine()][0], "cores": metaevo.devices.usable_cores()}
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpus = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found["gpu"] = "; ".join(gpus.splitlines())
    installed = filter(importlib.util.find_spec, PACKAGES)
    versions = {name: importlib.metadata.version(name) for name in installed}
    return {**found, "python": platform.python_version(), **versions}


def save(path: Path, title: str, table: Table) -> None:
    """Write a table with the machine and the command, for a page."""
    content = {
        "date": date.today().isoformat(),
        "commit": git(ROOT, "describe", "--always", "--exclude=*", "--dirty=+") or "unknown",
        "machine": machine(),
        "command": command_line(),
        "tables": [{"title": title, "columns": list(table.columns), "rows": table.rows}],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def command_line() -> str:
    """Return the command line of this process, without files and without peers' commands."""
    words = ["python"]
    for before, word in itertools.pairwise(sys.orig_argv):
        if before in ("--external", "--against"):
            word = f"{word.partition('=')[0]}=..." if "=" in word else "..."
        if not {before, word} & {"--save", "--run-dir"}:
            words.append(word.removeprefix(f"{ROOT}/"))
    return shlex.join(words)
