"""The chart of the suites `ppo` and `dqn`: steps per second against the number of agents."""

from collections.abc import Mapping
from pathlib import Path

from experiments.benchmarks.comparison import Comparison, Row

SUITES = ("ppo", "dqn")
FORMATS = (".png", ".svg", ".pdf")


def draw(comparisons: Mapping[str, Comparison], path: Path) -> None:
    """Draw all variants, with a panel for each learner and task.

    Points are medians; bars range from the smallest to the largest value.

    Args:
        comparisons: results by suite.
        path: file with a suffix in `FORMATS`.
    """
    from metaevo.reports import plots

    panels: dict[str, list[Row]] = {}
    for suite in SUITES:
        for row in comparisons[suite].rows if suite in comparisons else ():
            panels.setdefault(f"{suite.upper()}, {row.labels['task']}", []).append(row)
    names = list(dict.fromkeys(row.variant for rows in panels.values() for row in rows))
    figure = plots._figure(3.8, width=4.5 * max(1, len(panels)))
    axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for axis, (title, rows) in zip(axes, panels.items(), strict=False):
        plots._style(axis, "agents", "steps per second of training")
        axis.set(xscale="log", yscale="log", title=title)
        for index, name in enumerate(names):
            own = {row.labels["agents"]: row.rate for row in rows if row.variant == name}
            rates = [rate for rate in own.values() if rate is not None]
            bars = [
                [rate.median - rate.min for rate in rates],
                [rate.max - rate.median for rate in rates],
            ]
            axis.errorbar(
                [*own], [rate.median for rate in rates], bars,
                label=name, color=f"C{index}", marker="o", markersize=4, capsize=2,
            )  # fmt: skip
        agents = list(dict.fromkeys(row.labels["agents"] for row in rows))
        axis.set_xticks(agents, [f"{count:,}" for count in agents], rotation=45)
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    plots._legend(figure, *axes)
    figure.savefig(path)
