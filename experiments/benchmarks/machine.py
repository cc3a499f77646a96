"""The machine of a benchmark, and the files in docs/results."""

import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from experiments.benchmarks.tables import Table
from metaevo.evolution.devices import usable_cores
from metaevo.runs.run_directory import commit

PACKAGES = (
    "jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy", "gymnasium", "rejax", "torch",
    "minatar",
)  # fmt: skip
ROOT = Path(__file__).resolve().parent.parent.parent


def machine() -> dict[str, Any]:
    """Return the processor, its load, versions, and the commit."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(": ")[2] if names else model
    installed = filter(importlib.util.find_spec, PACKAGES)
    return {
        "processor": model,
        "cores": usable_cores(),
        **({"gpu": gpu} if (gpu := _gpu()) else {}),
        "load": os.getloadavg()[0],
        "commit": commit(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in installed},
    }


def _gpu() -> str:
    """Return the names and drivers of NVIDIA's GPUs."""
    if not shutil.which("nvidia-smi"):
        return ""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return "; ".join(found.stdout.splitlines())


def save(path: Path, tables: Mapping[str, Table], note: str = "") -> None:
    """Write a file for the documentation: tables, the machine and the command.

    Args:
        path: the file, docs/results/NAME.json.
        tables: tables by title.
        note: text below the tables.
    """
    about = machine()
    content = {
        "date": date.today().isoformat(),
        "commit": about["commit"],
        "machine": {key: value for key, value in about.items() if key not in ("commit", "load")},
        "command": command_line(),
        **({"note": note} if note else {}),
        "tables": [
            {"title": title, "columns": list(table.columns), "rows": table.rows}
            for title, table in tables.items()
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def command_line() -> str:
    """Return the command line of this process, without files and without peers' commands."""
    module, words = Path(sys.argv[0]), []
    for before, word in itertools.pairwise(["", *sys.argv[1:]]):
        if before == "--external":
            word = f"{word.partition('=')[0]}=..."
        if not {before, word} & {"--save", "--figure", "--run-dir", "--hlo"}:
            words.append(word)
    program = [f"experiments/{module.name}"]
    if "benchmarks" in module.parts:  # a module, or one that is a folder
        name = module.parent.name if module.stem == "__main__" else module.stem
        program = ["-m", f"experiments.benchmarks.{name}"]
    return shlex.join(["python", *program, *words])
