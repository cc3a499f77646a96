"""A published comparison, and the tables and figures of its repetition."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import machine, save
from experiments.benchmarks.tables import Table
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
    run: Callable[[Any, Path], tuple[Table, str]]
    """from the settings and the folder of the figures to a table, and a note below it"""
    check: Callable[[Any], object] = lambda _: None
    """raises ValueError for settings that cannot run, before anything is compiled"""


def write(run: RunDirectory, comparison: Comparison, table: Table, note: str) -> None:
    """Write tables.md, and results.json in the format of docs/results."""
    save(run.path / "results.json", {comparison.title: table}, note)
    about = machine()
    head = f"## {comparison.title}\n\nPublished: {comparison.published}"
    packages = ("jax", "gymnasium", "gymnax", "torch", "minatar")
    versions = ", ".join(f"{name} {about[name]}" for name in packages if name in about)
    tail = f"Measured on {about['cores']} cores of {about['processor']}, {versions}.\n"
    texts = [head, table.markdown().strip(), *([note] if note else []), tail]
    write_text_atomic(run.path / "tables.md", "\n\n".join(texts))
    print(f"\n{note}\n{tail}Written to {run.path}: tables.md, results.json, figures/", flush=True)


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
