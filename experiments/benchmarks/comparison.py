"""Variants of the same work, measured in alternation, and the table of their speeds."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from experiments.benchmarks.processes import Labels, Sample, Variant, measure
from experiments.benchmarks.tables import Cell, Table, number

OURS = "ours"
"""Reference variant for all comparisons."""


class Comparison:
    """Cases in one table; a case is one amount of work that several variants do.

    A ratio compares neighbours in time, because a disturbance affects both: our rate divided by the
    variant's or, if a suite names a variant in `faster_than`, the other way round.
    """

    def __init__(self, unit: str, *labels: str, faster_than: str | None = None):
        """Print the head of the table.

        Args:
            unit: unit of the work.
            labels: columns that distinguish the cases.
            faster_than: the variant in the denominator of the ratios.
        """
        self.failures: list[Labels] = []
        """variants that could not be measured"""
        self._faster_than = faster_than
        ratio = f"faster than {faster_than}" if faster_than else f"{OURS} is faster"
        self.table = Table(
            *labels, "variant", f"{unit}/s: median [min, max]", "per CPU second",
            f"{ratio}: median [min, max]", "in CPU seconds", "compile, s",
            "peak MiB", "layout",
        )  # fmt: skip

    def case(
        self, variants: Mapping[str, Variant], repeats: int, *labels: Cell, amount: float = 0.0
    ) -> None:
        """Measure a case and print its rows. A variant that fails is left out; see `failures`.

        Args:
            variants: variants by name.
            repeats: measurements of each variant.
            labels: labels of this case, one for each label column.
            amount: amount of work, for workers that do not report it.
        """
        chosen = {(*labels, name): variant for name, variant in variants.items()}
        measured, failed = measure(chosen, repeats)
        self.failures += failed
        reference = measured.get((*labels, self._faster_than or OURS))
        for row, (about, samples) in measured.items():
            speeds, ratios = [], []
            for key in ("seconds", "cpu_seconds"):
                own = rates(samples, key, amount)
                others = [] if reference is None else rates(reference.samples, key, amount)
                above, below = (own, others) if self._faster_than else (others, own)
                pairs = zip(above, below, strict=False)
                speeds.append(spread(own) or "-")
                is_reference = reference is not None and reference.samples is samples
                ratios.append("" if is_reference else spread(x / y for x, y in pairs))
            self.table.row(
                *row, *speeds, *ratios, about.get("compile_seconds", "-"), peak_mib(samples) or "-",
                about.get("layout", "-"),
            )  # fmt: skip


def rates(samples: Sequence[Sample], key: str, amount: float = 0.0) -> list[float]:
    """Return the units of work per second of every sample; none if some seconds are unknown."""
    if not all(each.get(key) for each in samples):
        return []
    return [each.get("amount", amount) / each[key] for each in samples]


def spread(values: Iterable[float]) -> str:
    """Return `median [min, max]`; an empty text without values."""
    values = list(values)
    if not values:
        return ""
    return f"{number(statistics.median(values))} [{number(min(values))}, {number(max(values))}]"


def peak_mib(samples: Sequence[Sample]) -> str:
    """Return the peak memory; an empty text if it is unknown."""
    peak = max(each.get("peak_bytes", 0.0) for each in samples)
    return number(peak / 2**20, 4) if peak else ""
