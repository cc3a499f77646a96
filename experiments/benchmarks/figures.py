"""A chart of a benchmark's results: steps a second against the number of agents.

python -m experiments.benchmarks.figures RESULTS.json [...] FILE       # of what was run before
"""

import json
import sys
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import PRODUCTS
from experiments.benchmarks.processes import BenchmarkError

SUITES = ("ppo", "dqn")
FORMATS = (".png", ".svg", ".pdf")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw ours and all it was held against, a panel for each learner and task.

    Points are medians, bars reach from the least to the largest. The name of the file ends in one
    of `FORMATS`.

    Raises:
        BenchmarkError: if there is nothing to draw.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    panels: dict[str, list[dict[str, Any]]] = {}
    for suite in SUITES:
        for row in results.get(suite, {}).get("rows", []):
            if row["variant"] != PRODUCTS:
                panels.setdefault(f"{suite.upper()}, {row['task']}", []).append(row)
    if not panels:
        raise BenchmarkError(f"no figure: nothing of {' and '.join(SUITES)} was measured")
    figure = Figure(figsize=(4.5 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    names = list(dict.fromkeys(row["variant"] for rows in panels.values() for row in rows))
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        for index, name in enumerate(names):
            own = sorted((row for row in rows if row["variant"] == name), key=lambda r: r["agents"])
            if not own:
                continue
            medians = [row["median"] for row in own]
            below = [row["median"] - row["min"] for row in own]
            above = [row["max"] - row["median"] for row in own]
            axis.errorbar(
                [row["agents"] for row in own], medians, yerr=[below, above], label=name,
                color=f"C{index}", marker="o", markersize=4, capsize=2,
                linewidth=2.2 if name == "ours" else 1.3,
            )  # fmt: skip
        agents = sorted({row["agents"] for row in rows})
        axis.set(xscale="log", yscale="log", title=title, xlabel="agents")
        axis.set_xticks(agents, [f"{count:,}" for count in agents], rotation=45)
        axis.minorticks_off()
        low, high = axis.get_ylim()
        steps = [m * 10**power for power in range(9) for m in (1, 1.5, 2, 3, 4, 5, 7)]
        axis.set_yticks([each for each in steps if low <= each <= high])
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.set_ylim(low, high)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("steps per second of training")
    handles: dict[str, Any] = {}
    for axis in axes:
        drawn, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(names))
    figure.savefig(path, dpi=150)


def main(*names: str) -> None:
    """Draw the rows of several files as one chart, into the last."""
    results: dict[str, Any] = {suite: {"rows": []} for suite in SUITES}
    for name in names[:-1]:
        for suite, content in json.loads(Path(name).read_text(encoding="utf-8")).items():
            if suite in SUITES:
                results[suite]["rows"] += content["rows"]
    draw(results, Path(names[-1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
