"""Variants of the same work, measured in alternation, and the table of their speeds."""

import dataclasses
import statistics
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from experiments.benchmarks.processes import (
    BenchmarkError,
    Sample,
    Variant,
    Worker,
    measure_in_turns,
    progress,
)

OURS = "ours"
"""Reference variant for all comparisons."""
Cell = str | int | float


class Table:
    """A Markdown table, printed row by row."""

    def __init__(self, *columns: str):
        """Print the head."""
        self.columns, self.rows = columns, list[list[str]]()
        print(f"\n| {' | '.join(columns)} |")
        marks = ("---" if each == columns[0] or "layout" in each else "---:" for each in columns)
        print(f"| {' | '.join(marks)} |", flush=True)

    def row(self, *cells: Cell) -> None:
        """Print a row."""
        assert len(cells) == len(self.columns), cells
        self.rows.append([str(cell) for cell in cells])
        print(f"| {' | '.join(self.rows[-1])} |", flush=True)


@dataclass(frozen=True)
class Spread:
    """The smallest, the middle and the largest value."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Return the smallest, the middle and the largest value."""
        values = list(values)
        return cls(min(values), statistics.median(values), max(values))

    def __str__(self) -> str:
        return f"{number(self.median)} [{number(self.min)}, {number(self.max)}]"


@dataclass(frozen=True)
class Row:
    """A variant's speed in one case."""

    labels: dict[str, Cell]
    variant: str
    rate: Spread
    """units of work per second"""
    cpu_rate: Spread | None
    """units of work per CPU second"""
    ratio: Spread | None
    """ratios of the rate; see `Comparison`"""
    cpu_ratio: Spread | None
    """ratios of the rate per CPU second"""
    peak_bytes: float | None
    about: dict[str, str | float]
    """the worker's description of itself"""
    samples: list[Sample]


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
        extra: Mapping[str, str] | None = None,
    ):
        """Print the head of the table.

        Args:
            unit: unit of the work.
            labels: columns that distinguish the cases.
            faster_than: the variant in the denominator of the ratios.
            extra: further numbers of the samples by column head.
        """
        self.rows: list[Row] = []
        self.failures: list[dict[str, Cell]] = []
        """variants and cases that could not be measured"""
        self._labels, self._extra = labels, dict(extra or {})
        self._reference, self._inverse = faster_than or OURS, faster_than is not None
        ratio = f"faster than {faster_than}" if faster_than else f"{OURS} is faster"
        self.table = Table(
            *labels, "variant", f"{unit}/s: median [min, max]", "per CPU second",
            f"{ratio}: median [min, max]", "in CPU seconds", *self._extra, "compile, s",
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
        try:
            with ExitStack() as stack:
                workers = self._start(stack, variants, labels)
                samples = measure_in_turns(workers, repeats)
                abouts = {name: worker.about for name, worker in workers.items()}
        except BenchmarkError as error:
            self._failed(labels, self._reference, error)  # the other cases are still measured
            return
        samples = {
            name: [{"amount": amount, **each} for each in own] for name, own in samples.items()
        }
        reference = samples.get(self._reference)
        for name, own in samples.items():
            row = Row(
                labels=dict(zip(self._labels, labels, strict=True)),
                variant=name,
                rate=Spread.of(_rates(own, "seconds")),
                cpu_rate=_spread(own, "cpu_seconds"),
                ratio=self._ratio(reference, own, "seconds", name),
                cpu_ratio=self._ratio(reference, own, "cpu_seconds", name),
                peak_bytes=max(each.get("peak_bytes", 0.0) for each in own) or None,
                about=abouts[name],
                samples=own,
            )
            self.rows.append(row)
            self._print(row)

    def results(self) -> dict[str, list]:
        """Return rows and failures as plain data."""
        return {"rows": [dataclasses.asdict(row) for row in self.rows], "failures": self.failures}

    def _ratio(
        self, reference: list[Sample] | None, own: list[Sample], key: str, name: str
    ) -> Spread | None:
        if name == self._reference or reference is None or not _has([*reference, *own], key):
            return None
        above, below = (own, reference) if self._inverse else (reference, own)
        pairs = zip(_rates(above, key), _rates(below, key), strict=True)
        return Spread.of(one / other for one, other in pairs)

    def _start(
        self, stack: ExitStack, variants: Mapping[str, Variant], labels: tuple[Cell, ...]
    ) -> dict[str, Worker]:
        workers = {}
        for name, variant in variants.items():
            progress(f"{', '.join(map(str, labels))}: {name} compiles")
            try:
                worker = stack.enter_context(Worker(name, variant))
            except BenchmarkError as error:
                if name == self._reference:
                    raise
                self._failed(labels, name, error)
                continue
            if "skip" in worker.about:
                progress(f"{name} is left out: {worker.about['skip']}")
            else:
                workers[name] = worker
        return workers

    def _failed(self, labels: tuple[Cell, ...], name: str, error: BenchmarkError) -> None:
        print(f"error: {', '.join(map(str, labels))}: {error}; left out", file=sys.stderr)
        case = dict(zip(self._labels, labels, strict=True))
        self.failures.append({**case, "variant": name, "error": str(error)})

    def _print(self, row: Row) -> None:
        compile_seconds = row.about.get("compile_seconds")
        self.table.row(
            *row.labels.values(), row.variant, str(row.rate), str(row.cpu_rate or "-"),
            str(row.ratio or ""), str(row.cpu_ratio or ""),
            *(_extra(row.samples, key) for key in self._extra.values()),
            "-" if compile_seconds is None else number(float(compile_seconds)),
            "-" if row.peak_bytes is None else number(row.peak_bytes / 2**20, 4),
            row.about.get("layout", "-"),
        )  # fmt: skip


def _has(samples: list[Sample], key: str) -> bool:
    return all(each.get(key) for each in samples)


def _rates(samples: list[Sample], key: str) -> list[float]:
    return [each["amount"] / each[key] for each in samples]


def _spread(samples: list[Sample], key: str) -> Spread | None:
    return Spread.of(_rates(samples, key)) if _has(samples, key) else None


def _extra(samples: list[Sample], key: str) -> str:
    return str(Spread.of(each[key] for each in samples)) if key in samples[0] else "-"


def number(value: float, digits: int = 3) -> str:
    """Format a value with a number of significant digits and commas between thousands."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"
