"""The figure of formulas: their scores against their lengths."""

from collections.abc import Sequence
from pathlib import Path

from metaevo.config.plain import PlainMapping
from metaevo.reports import plots


def plot_formulas(
    formulas: Sequence[PlainMapping],
    hand_written: Sequence[PlainMapping],
    learned: PlainMapping,
    path: plots.PathLike,
    *,
    networks: Sequence[PlainMapping] = (),
    ylabel: str,
) -> Path:
    """Draw the score of every formula over its length, and networks at the right end.

    Args:
        formulas: each with length, iqm, interval (low, high).
        hand_written: each with name, length (None: not drawn), iqm, interval.
        learned: numbers (how many it has), iqm, interval.
        path: output path of the PNG.
        networks: smaller ones, like `learned`, which comes last.
        ylabel: name of the score.
    """
    figure = plots._figure(4.6)
    axes = plots._style(figure.subplots(), "length of the formula", ylabel)
    known = [each for each in hand_written if each["length"] is not None]
    lengths = [each["length"] for each in [*formulas, *known]]
    step = max(lengths, default=1) * 0.12 + 1
    ends = [max(lengths, default=1) + 2 + step * (i + 1) for i in range(len(networks) + 1)]
    smaller = [{**row, "length": x} for row, x in zip(networks, ends, strict=False)]
    low, high = learned["interval"]
    axes.axhspan(low, high, color=plots.LEARNED, alpha=0.12, linewidth=0, zorder=0)
    groups = (
        ("formulas of what was learned", plots.LEARNED, "o", "white", formulas),
        ("hand-written", plots.BLUE, "s", plots.BLUE, known),
        ("smaller networks", plots.LEARNED, "D", "white", smaller),
        ("learned", plots.LEARNED, "D", plots.LEARNED, [{**learned, "length": ends[-1]}]),
    )
    for label, color, marker, face, rows in groups:
        if not rows:
            continue
        for row in rows:
            x, (low, high) = row["length"], row["interval"]
            axes.plot([x, x], [low, high], color=color, linewidth=2.5, solid_capstyle="round")
        axes.plot(
            [row["length"] for row in rows],
            [row["iqm"] for row in rows],
            marker,
            color=color,
            markersize=8,
            markeredgewidth=2,
            markerfacecolor=face,
            label=label,
        )
    for row in known:
        axes.annotate(
            plots._plain(row["name"]),
            (row["length"], row["iqm"]),
            textcoords="offset points",
            xytext=(3, 7),
            rotation=35,  # short formulas lie close to each other
            fontsize=9,
            color=plots.BLUE,
        )
    ticks = sorted(set(lengths))
    kept = [each for i, each in enumerate(ticks) if not i or each - ticks[i - 1] >= 1]
    numbers = [f"{row['numbers']:,}\nnumbers" for row in [*networks, learned]]
    axes.set_xticks([*kept, *ends], [*map(str, kept), *numbers])
    axes.margins(x=0.05)
    plots._legend(figure, axes)
    return plots._save(figure, path)
