"""A published comparison, and the tables and figures of its repetition."""

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import machine, save
from experiments.benchmarks.tables import Cell, Table
from metaevo.config import ConfigError
from metaevo.config.files import write_text_atomic
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
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def table(self, columns: list[str], rows: Iterable[list[Cell]]) -> None:
        """Print the table."""
        self.tables[self.comparison.title] = table = Table(*columns)
        for row in rows:
            table.row(*row)

    def note(self, text: str) -> None:
        """Add a paragraph below the table."""
        self.notes.append(text)
        print(f"\n{text}", flush=True)

    def figure(self, name: str) -> Path:
        """Return the path of a figure."""
        return self.run.figures / f"{name}.png"

    def write(self) -> None:
        """Write tables.md, and results.json in the format of docs/results."""
        save(self.run.path / "results.json", self.tables, " ".join(self.notes))
        about = machine()
        head = f"## {self.comparison.title}\n\nPublished: {self.comparison.published}"
        packages = ("jax", "gymnasium", "gymnax", "torch", "minatar")
        versions = ", ".join(f"{name} {about[name]}" for name in packages if name in about)
        tail = f"Measured on {about['cores']} cores of {about['processor']}, {versions}.\n"
        texts = [head, *(each.markdown().strip() for each in self.tables.values()), *self.notes]
        write_text_atomic(self.run.path / "tables.md", "\n\n".join([*texts, tail]))
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
