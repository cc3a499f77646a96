"""Variants of the same work, measured in turns, and the table of what came out."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from experiments.benchmarks.processes import (
    BenchmarkError,
    Variant,
    Worker,
    measure_all,
    own,
    progress,
    spread,
)

OURS, PRODUCTS = "ours", "matrix products"
"""Names of two variants: the one that others are held against, and the machine's own speed."""


class Table:
    """A table in markdown, printed row by row."""

    made: ClassVar[list["Table"]] = []
    """all tables of this process, for `--save`"""

    def __init__(self, *columns: str):
        """Print the head."""
        self._columns, self._rows = columns, list[list[str]]()
        self.made.append(self)
        print(f"\n| {' | '.join(columns)} |")
        marks = ("---" if each == columns[0] or "layout" in each else "---:" for each in columns)
        print(f"| {' | '.join(marks)} |", flush=True)

    def row(self, *cells: Any) -> None:
        """Print a row."""
        assert len(cells) == len(self._columns), cells
        self._rows.append([str(cell) for cell in cells])
        print(f"| {' | '.join(self._rows[-1])} |", flush=True)

    def saved(self, title: str) -> dict[str, Any]:
        """Return the table as docs/results keeps it."""
        return {"title": title, "columns": list(self._columns), "rows": self._rows}


def number(value: float | None, digits: int = 3) -> str:
    """Return a value with so many significant digits, and with thousands apart."""
    if value is None:
        return "-"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"


def interval(values: Mapping[str, float], digits: int = 3) -> str:
    """Return `median [min, max]`."""
    low, middle, high = (number(values[name], digits) for name in ("min", "median", "max"))
    return f"{middle} [{low}, {high}]"


def with_aim(text: str, ratio: float, aim: float | None) -> str:
    """Return the text, with the aim and whether a ratio reaches it."""
    if aim is None:
        return text
    return f"{text} (aim {aim:g}: {'reached' if ratio >= aim else 'MISSED'})"


def neighbours(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Ratios of neighbours in time: what disturbs one is likely to disturb both."""
    return spread(a / b for a, b in zip(ours, theirs, strict=True))


class Comparison:
    """A suite's comparison: one table, to which every case adds its variants.

    Each case is one amount of work. Its table says for every variant how fast it was (`unit` a
    second of the clock and of processors), how much faster ours was, how long XLA compiled, the
    largest memory, and the floating-point operations that the work needs, in a second and as a
    share of the matrix products that the same machine did in the same minutes.
    """

    def __init__(self, unit: str, *labels: str, products: bool = True):
        """Print the head of the table.

        Args:
            unit: of the work.
            labels: names of what tells the cases apart.
            products: also measure matrix products.
        """
        self.rows: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []
        """What could not be measured."""
        self._labels, self._unit, self._products = labels, unit, products
        self._table = Table(
            *labels, "variant", f"{unit}/s: median [min, max]", "per CPU second",
            "ours is faster: median [min, max]", "GFLOP/s", "of matrix products", "compile, s",
            "peak MiB", "layout",
        )  # fmt: skip

    def case(
        self,
        variants: Mapping[str, Variant],
        amount: float,
        repeats: int,
        *labels: Any,
        aims: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """Measure a case and print its rows. A variant that cannot start is left out.

        The whole case is left out if it is ours, or if one ends later: see `failures`.

        Args:
            variants: `OURS` and whatever it is held against.
            amount: of the work, in the table's unit.
            repeats: measurements of each.
            labels: what tells this case from others, as many as the table has.
            aims: by platform (cpu or gpu) and variant, how much faster ours should be.
        """
        try:
            with ExitStack() as stack:
                workers = self._start(stack, variants, labels)
                results = measure_all(workers, repeats)
                abouts = {name: worker.about for name, worker in workers.items()}
        except BenchmarkError as error:
            self._failed(labels, OURS, error)  # other cases are measured all the same
            return
        rates = {
            name: [each.get("amount", amount) / each["seconds"] for each in measured]
            for name, measured in results.items()
        }
        products = rates.pop(PRODUCTS, None)
        for name, values in rates.items():
            measured, about = results[name], abouts[name]
            row = dict(zip(self._labels, labels, strict=True))
            row |= {"variant": name, **spread(values), **about, "rates": values}
            row["seconds"] = spread(each["seconds"] for each in measured)["median"]
            if "cpu_seconds" in measured[0]:
                per_cpu = [each.get("amount", amount) / each["cpu_seconds"] for each in measured]
                row["per_cpu_second"] = spread(per_cpu)["median"]
            if "peak_bytes" in measured[0]:
                row["peak_bytes"] = max(each["peak_bytes"] for each in measured)
            if name != OURS and OURS in rates:
                row["ours_is_faster"] = neighbours(rates[OURS], values)
            if "flops_per_unit" in about:
                flops = [about["flops_per_unit"] * rate for rate in values]
                row["flops_per_second"] = spread(flops)["median"]
                if products is not None:
                    row["of_products"] = neighbours(flops, products)["median"]
            aim = (aims or {}).get(abouts.get(OURS, {}).get("platform", "cpu"), {}).get(name)
            self._print(row, aim)
            self.rows.append(row)
        if products is not None:
            row = dict(zip(self._labels, labels, strict=True))
            row |= {"variant": PRODUCTS, **spread(products), **abouts[PRODUCTS]}
            self.rows.append(row)
            gigaflops = number(row["median"] / 1e9)
            rest = ["-", "-", "", gigaflops, "100%", "-", "-"]
            self._table.row(*labels, PRODUCTS, *rest, row["layout"])

    def _start(
        self, stack: ExitStack, variants: Mapping[str, Variant], labels: tuple[Any, ...]
    ) -> dict[str, Worker]:
        extra = {PRODUCTS: own("matrix_products")} if self._products else {}
        workers = {}
        for name, variant in {**variants, **extra}.items():
            progress(f"{', '.join(map(str, labels))}: {name} compiles")
            try:
                worker = stack.enter_context(Worker(name, variant))
            except BenchmarkError as error:
                if name == OURS:
                    raise
                self._failed(labels, name, error)
                continue
            if "skip" in worker.about:
                progress(f"{name} is left out: {worker.about['skip']}")
            else:
                workers[name] = worker
        return workers

    def _failed(self, labels: tuple[Any, ...], name: str, error: BenchmarkError) -> None:
        print(f"error: {', '.join(map(str, labels))}: {error}; left out", file=sys.stderr)
        row = dict(zip(self._labels, labels, strict=True))
        self.failures.append({**row, "variant": name, "error": str(error)})

    def _print(self, row: dict[str, Any], aim: float | None) -> None:
        faster, gigaflops, share, peak = "", "-", "-", "-"
        if "ours_is_faster" in row:
            faster = with_aim(interval(row["ours_is_faster"]), row["ours_is_faster"]["median"], aim)
        if "flops_per_second" in row:
            gigaflops = number(row["flops_per_second"] / 1e9)
        if "of_products" in row:
            share = f"{row['of_products']:.0%}"
        if "peak_bytes" in row:
            peak = number(row["peak_bytes"] / 2**20, 4)
        self._table.row(
            *(row[label] for label in self._labels), row["variant"], interval(row),
            number(row.get("per_cpu_second")), faster, gigaflops, share,
            number(row.get("compile_seconds")), peak,
            row.get("layout", "-"),
        )  # fmt: skip
