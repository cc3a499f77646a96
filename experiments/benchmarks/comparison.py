"""Variants of the same work, measured in alternation, and the table of their speeds."""

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from experiments.benchmarks.processes import (
    BenchmarkError,
    Sample,
    Variant,
    Worker,
    measure_in_turns,
    progress,
)
from experiments.benchmarks.tables import Cell, Table, number

OURS = "ours"
"""Reference variant for all comparisons."""


@dataclass(frozen=True)
class Spread:
    """The smallest, the middle and the largest value."""

    min: float
    median: float
    max: float

    def __str__(self) -> str:
        return f"{number(self.median)} [{number(self.min)}, {number(self.max)}]"


@dataclass(frozen=True)
class Row:
    """A variant's speed in one case; what the samples do not tell is None."""

    labels: dict[str, Cell]
    variant: str
    rate: Spread | None
    """units of work per second"""
    cpu_rate: Spread | None
    """units of work per CPU second"""
    ratio: Spread | None
    """ratios of the rate; see `Comparison`"""
    cpu_ratio: Spread | None
    """ratios of the rate per CPU second"""
    peak_bytes: float | None
    about: dict[str, Any]
    """the worker's description of itself"""


class Comparison:
    """Cases in one table; a case is one amount of work that several variants do.

    A ratio compares neighbours in time, because a disturbance affects both: our rate divided by the
    variant's or, if a suite names a variant in `faster_than`, the other way round.
    """

    def __init__(
        self,
        unit: str,
        *labels: str,
        faster_than: str | None = None,
    ):
        """Print the head of the table.

        Args:
            unit: unit of the work.
            labels: columns that distinguish the cases.
            faster_than: the variant in the denominator of the ratios.
        """
        self.rows: list[Row] = []
        self.failures: list[dict[str, Cell]] = []
        """variants and cases that could not be measured"""
        self._labels = labels
        self._reference, self._inverse = faster_than or OURS, faster_than is not None
        ratio = f"faster than {faster_than}" if faster_than else f"{OURS} is faster"
        self.table = Table(
            *labels, "variant", f"{unit}/s: median [min, max]", "per CPU second",
            f"{ratio}: median [min, max]", "in CPU seconds", "compile, s",
            "peak MiB", "layout",
        )  # fmt: skip

    def case(
        self,
        variants: Mapping[str, Variant],
        repeats: int,
        *labels: Cell,
        amount: float = 0.0,
    ) -> None:
        """Measure a case and print its rows. A variant that cannot start is left out.

        The whole case is left out if the reference variant cannot start, or if a process exits
        later; see `failures`.

        Args:
            variants: variants by name.
            repeats: measurements of each variant.
            labels: labels of this case, one for each label column.
            amount: amount of work, for workers that do not report it.
        """
        case = dict(zip(self._labels, labels, strict=True))
        try:
            with ExitStack() as stack:
                workers = self._start(stack, variants, case)
                samples = measure_in_turns(workers, repeats)
        except BenchmarkError as error:
            self._failed(case, self._reference, error)  # the other cases are still measured
            return
        samples = {
            name: [{"amount": amount, **each} for each in own] for name, own in samples.items()
        }
        reference = samples.get(self._reference, [])
        for name, own in samples.items():
            others = [] if name == self._reference else reference
            row = Row(
                case,
                name,
                spread(rates(own, "seconds")),
                spread(rates(own, "cpu_seconds")),
                spread(self._ratios(others, own, "seconds")),
                spread(self._ratios(others, own, "cpu_seconds")),
                max(each.get("peak_bytes", 0.0) for each in own) or None,
                workers[name].about,
            )
            self.rows.append(row)
            self._print(row)

    def _ratios(self, reference: list[Sample], own: list[Sample], key: str) -> list[float]:
        above, below = (own, reference) if self._inverse else (reference, own)
        pairs = zip(rates(above, key), rates(below, key), strict=False)
        return [one / other for one, other in pairs]

    def _start(
        self, stack: ExitStack, variants: Mapping[str, Variant], case: dict[str, Cell]
    ) -> dict[str, Worker]:
        workers = {}
        for name, variant in variants.items():
            progress(f"{', '.join(map(str, case.values()))}: {name} compiles")
            try:
                worker = stack.enter_context(Worker(name, variant))
                worker.wait()
            except BenchmarkError as error:
                if name == self._reference:
                    raise
                self._failed(case, name, error)
                continue
            if "skip" in worker.about:
                progress(f"{name} is left out: {worker.about['skip']}")
            else:
                workers[name] = worker
        return workers

    def _failed(self, case: dict[str, Cell], name: str, error: BenchmarkError) -> None:
        print(f"error: {', '.join(map(str, case.values()))}: {error}; left out", file=sys.stderr)
        self.failures.append({**case, "variant": name, "error": str(error)})

    def _print(self, row: Row) -> None:
        compile_seconds, peak = row.about.get("compile_seconds"), row.peak_bytes
        self.table.row(
            *row.labels.values(), row.variant, str(row.rate), str(row.cpu_rate or "-"),
            str(row.ratio or ""), str(row.cpu_ratio or ""),
            "-" if compile_seconds is None else number(float(compile_seconds)),
            "-" if peak is None else number(peak / 2**20, 4),
            row.about.get("layout", "-"),
        )  # fmt: skip


def rates(samples: Sequence[Sample], key: str) -> list[float]:
    """Return the units of work per second of every sample; none if some seconds are unknown."""
    if not all(each.get(key) for each in samples):
        return []
    return [each["amount"] / each[key] for each in samples]


def spread(values: Iterable[float]) -> Spread | None:
    """Return the smallest, the middle and the largest value; None without values."""
    values = list(values)
    return Spread(min(values), statistics.median(values), max(values)) if values else None
