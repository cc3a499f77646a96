"""A published comparison, and the tables and figures of its repetition."""

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import machine
from experiments.benchmarks.tables import Cell, Table
from metaevo.config import ConfigError
from metaevo.config.files import write_json_atomic, write_text_atomic
from metaevo.runs.run_directory import RunDirectory


@dataclass(frozen=True)
class Comparison:
    """One published comparison."""

    title: str
    published: str
    """the source's result, in a sentence"""
    settings: type
    """a frozen dataclass; its fields are the options on the command line"""
    quick: dict[str, Any]
    """the settings of --quick, which show that the comparison works"""
    run: Callable[[Any, "Output"], None]
    check: Callable[[Any], object] = lambda _: None
    """raises ValueError for settings that cannot run, before anything is compiled"""


@dataclass
class Output:
    """Prints the results of a comparison and writes them to its run directory."""

    run: RunDirectory
    comparison: Comparison
    texts: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str, columns: list[str], rows: Iterable[list[Cell]]) -> None:
        """Add a table: printed, in results.json under its name and in tables.md."""
        table, self.results[name] = Table(*columns), []
        for row in rows:
            table.row(*row)
            self.results[name].append(dict(zip(columns, row, strict=True)))
        self.texts.append(table.markdown().strip())

    def note(self, text: str) -> None:
        """Add a paragraph below the last table."""
        self.texts.append(text)
        print(f"\n{text}", flush=True)

    def figure(self, name: str) -> Path:
        """Return the path of a figure."""
        return self.run.figures / f"{name}.png"

    def write(self, settings: dict[str, Any]) -> None:
        """Write results.json and tables.md."""
        about, published = machine(), self.comparison.published
        write_json_atomic(
            self.run.path / "results.json",
            {"settings": settings, "machine": about, "published": published, **self.results},
        )
        head = f"## {self.comparison.title}\n\nPublished: {published}"
        packages = ("jax", "gymnasium", "gymnax", "torch", "minatar")
        versions = ", ".join(f"{name} {about[name]}" for name in packages if name in about)
        tail = f"Measured on {about['cores']} cores of {about['processor']}, {versions}.\n"
        write_text_atomic(self.run.path / "tables.md", "\n\n".join([head, *self.texts, tail]))
        print(f"\n{tail}Written to {self.run.path}: tables.md, results.json, figures/", flush=True)


def require(extra: str, *, unless: str) -> None:
    """Check that an optional package is installed.

    Args:
        extra: name of the package, and of the extra in pyproject.toml.
        unless: the option that does without it.

    Raises:
        ConfigError: if it is missing.
    """
    if importlib.util.find_spec(extra) is None:
        raise ConfigError(
            f"{extra} is not installed: pip install -e '.[{extra}]', or leave it out with {unless}"
        )
