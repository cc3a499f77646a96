"""The machine of a benchmark, and the files in docs/results."""

import importlib.metadata
import importlib.util
import itertools
import json
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
    "jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy", "gymnasium", "torch", "minatar",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]


def machine() -> dict[str, Any]:
    """Return the processor, the GPUs and versions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    gpus = ""
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        gpus = "; ".join(found.stdout.splitlines())
    installed = filter(importlib.util.find_spec, PACKAGES)
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": usable_cores(),
        **({"gpu": gpus} if gpus else {}),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in installed},
    }


def save(path: Path, tables: Mapping[str, Table], note: str = "") -> None:
    """Write tables, by their titles, with the machine and the command, for a page."""
    content = {
        "date": date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
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
    words = ["python"]
    for before, word in itertools.pairwise(sys.orig_argv):
        if before in ("--external", "--against"):
            word = f"{word.partition('=')[0]}=..." if "=" in word else "..."
        if not {before, word} & {"--save", "--run-dir"}:
            words.append(word.removeprefix(f"{ROOT}/"))
    return shlex.join(words)
