"""What a comparison consists of, and how its tables and figures leave it."""

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError
from metaevo.runs.files import write_json_atomic, write_text_atomic
from metaevo.runs.run_directory import RunDirectory

Row = Sequence[Any]


@dataclass(frozen=True)
class Comparison:
    """One published comparison."""

    title: str
    published: str
    """what the source reports, in a sentence"""
    settings: type
    """a frozen dataclass whose fields are the options on the command line"""
    quick: dict[str, Any]
    """the settings of --quick: they show that it works, and measure little"""
    check: Callable[[Any], None]
    """raises ConfigError for what cannot run, before anything is compiled"""
    run: Callable[[Any, "Output"], None]


@dataclass
class Output:
    """Collects what a comparison finds; everything is printed and lies in its run directory."""

    run: RunDirectory
    comparison: Comparison
    tables: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Add a table: printed, in results.json under its name and in tables.md."""
        self.results[name] = [dict(zip(columns, row, strict=True)) for row in rows]
        text = markdown(columns, rows)
        self.tables.append(text)
        print(f"\n{text}", flush=True)

    def note(self, text: str) -> None:
        """Add a sentence below the last table."""
        self.tables.append(text)
        print(f"\n{text}", flush=True)

    def figure(self, name: str) -> Path:
        """Return where to save a figure."""
        return self.run.figures / f"{name}.png"

    def write(self, settings: dict[str, Any]) -> None:
        """Write results.json and tables.md."""
        about = {"settings": settings, "machine": machine(), "published": self.comparison.published}
        write_json_atomic(self.run.path / "results.json", {**about, **self.results})
        head = f"## {self.comparison.title}\n\nPublished: {self.comparison.published}\n"
        tail = f"Measured on {describe(machine())}.\n"
        text = "\n\n".join([head.rstrip(), *self.tables, tail])
        write_text_atomic(self.run.path / "tables.md", text)
        print(f"\n{tail}Written to {self.run.path}: tables.md, results.json, figures/", flush=True)


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table for pasting into a page; the first column is aligned left, others right."""
    lines = [list(columns), *([show(cell) for cell in row] for row in rows)]
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def show(value: Any) -> str:
    """Return a cell's text: numbers with three significant digits, large ones in full."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, str):
        return value
    number = float(value)
    if isinstance(value, int) or abs(number) >= 1000:
        return f"{_rounded(number) if not isinstance(value, int) else value:,.0f}"
    return f"{number:.3g}"


def _rounded(number: float) -> float:
    """Return a large number with three significant digits."""
    return float(f"{number:.3g}")


def require(extra: str, *, unless: str) -> None:
    """Check that an optional package is installed.

    Args:
        extra: its name, and that of the extra in pyproject.toml.
        unless: the option that does without it.

    Raises:
        ConfigError: if it is missing.
    """
    if importlib.util.find_spec(extra) is None:
        raise ConfigError(
            f"{extra} is not installed: pip install -e '.[{extra}]', or leave it out with {unless}"
        )


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(": ")[2] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {}
    for name in ("jax", "gymnasium", "gymnax", "torch", "minatar"):
        if importlib.util.find_spec(name) is not None:
            versions[name] = importlib.metadata.version(name)
    load = os.getloadavg()[0]
    return {
        "processor": model,
        "cores": cores,
        "load": load,
        "python": platform.python_version(),
    } | (versions)


def describe(about: dict[str, Any]) -> str:
    """Return the machine in one line."""
    versions = [f"{name} {about[name]}" for name in about if name not in _HARDWARE]
    return f"{about['cores']} cores of {about['processor']}, " + ", ".join(versions)


_HARDWARE = {"processor", "cores", "load"}
