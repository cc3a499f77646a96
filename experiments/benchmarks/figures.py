"""The chart of the suites `ppo` and `dqn`: steps per second against the number of agents.

python -m experiments.benchmarks.figures RESULTS.json [...] FILE       # of earlier measurements
"""

import json
import sys
from pathlib import Path
from typing import Any

SUITES = ("ppo", "dqn")
FORMATS = (".png", ".svg", ".pdf")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw all variants, with a panel for each learner and task.

    Points are medians; bars range from the smallest to the largest value.

    Args:
        results: results of the suites, as `benchmark.py --json` writes them.
        path: file with a suffix in `FORMATS`.
    """
    from matplotlib.figure import Figure

    panels: dict[str, list[dict[str, Any]]] = {}
    for suite in SUITES:
        for row in results.get(suite, {}).get("rows", []):
            panels.setdefault(f"{suite.upper()}, {row['labels']['task']}", []).append(row)
    figure = Figure(figsize=(4.5 * max(1, len(panels)), 3.8), layout="constrained")
    axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
    names = list(dict.fromkeys(row["variant"] for rows in panels.values() for row in rows))
    handles: dict[str, Any] = {}
    for axis, (title, rows) in zip(axes, panels.items(), strict=False):
        rows.sort(key=lambda row: row["labels"]["agents"])
        for index, name in enumerate(names):
            points = [(row["labels"]["agents"], row["rate"]) for row in rows
                      if row["variant"] == name]  # fmt: skip
            if not points:
                continue
            bars = [
                [rate["median"] - rate["min"] for _, rate in points],
                [rate["max"] - rate["median"] for _, rate in points],
            ]
            handles[name] = axis.errorbar(
                [agents for agents, _ in points], [rate["median"] for _, rate in points], yerr=bars,
                label=name, color=f"C{index}", marker="o", markersize=4, capsize=2,
                linewidth=2.2 if name == "ours" else 1.3,
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", title=title, xlabel="agents")
        agents = sorted({row["labels"]["agents"] for row in rows})
        axis.set_xticks(agents, [f"{count:,}" for count in agents], rotation=45)
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("steps per second of training")
    if handles:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles))
    figure.savefig(path, dpi=150)


def main(*names: str) -> None:
    """Draw the rows of all files but the last in one chart, and write it to the last."""
    results: dict[str, Any] = {suite: {"rows": []} for suite in SUITES}
    for name in names[:-1]:
        for suite, content in json.loads(Path(name).read_text(encoding="utf-8")).items():
            if suite in SUITES:
                results[suite]["rows"] += content["rows"]
    draw(results, Path(names[-1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
