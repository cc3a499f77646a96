"""What the numbers of a benchmark depend on."""

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

PACKAGES = ("jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy")
PEERS = ("gymnasium", "rejax", "torch")
ROOT = Path(__file__).resolve().parent.parent.parent


def machine() -> dict[str, Any]:
    """Return the processor, its load, versions, and the commit."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(": ")[2] if names else model
    return {
        "processor": model,
        "cores": cores(),
        "load": os.getloadavg()[0],
        "commit": commit(),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        **{name: version for name in PEERS if (version := _version(name))},
    }


def save(path: Path, command: str, tables: Sequence[dict[str, Any]], note: str = "") -> None:
    """Write what a page of the documentation shows: tables and where they come from.

    Args:
        path: of the file, docs/results/NAME.json.
        command: that repeats them.
        tables: as `Table.saved` returns them.
        note: to stand below them.
    """
    about = machine()
    content = {
        "date": date.today().isoformat(),
        "commit": about["commit"],
        "machine": {key: value for key, value in about.items() if key not in ("commit", "load")},
        "command": command,
        **({"note": note} if note else {}),
        "tables": list(tables),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def commit() -> str:
    """Return the short name of the commit, with a plus where files have changed since."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
