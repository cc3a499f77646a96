"""The figure of scores: which numbers it shows, and that a weak variant stretches nothing."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from metaevo.reports.score_plots import plot_scores

ROWS = [
    {"name": "learned (tuned)", "iqm": 404.0, "interval": (403.0, 405.0), "tuned": True},
    {"name": "squared (tuned)", "iqm": 402.0, "interval": [401.5, 402.5], "tuned": True},
    {"name": "huber (tuned)", "iqm": 5.0, "interval": [1.0, 9.0], "tuned": False},
]
DIFFERENCES = {"learned (tuned)": (2.0, (0.5, 3.5)), "huber (tuned)": (-397.0, [-401.0, -393.0])}


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are when saved."""
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    return figures


def names(axes):
    return [tick.get_text().replace("\n", " ") for tick in axes.get_yticklabels()]


def dots(axes):
    return [line for line in axes.get_lines() if len(line.get_xdata()) == 1]


def test_scores(tmp_path, drawn):
    plot_scores(ROWS, tmp_path / "s.png", xlabel="return")
    (axes,) = drawn[0].axes
    assert names(axes) == [row["name"] for row in ROWS]
    assert [dot.get_xdata()[0] for dot in dots(axes)] == [404.0, 402.0, 5.0]
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top


def test_differences_stand_around_zero_and_a_weak_variant_is_an_arrow(tmp_path, drawn):
    plot_scores(
        ROWS,
        tmp_path / "s.png",
        xlabel="return",
        differences=DIFFERENCES,
        learned="learned (tuned)",
        reference="squared (tuned)",
    )
    _, axes = drawn[0].axes
    assert names(axes) == ["learned (tuned)", "huber (tuned)"]
    low, high = axes.get_xlim()
    assert -1 < low < 0 < 3.5 < high < 5


def test_neighbours_of_the_learned_one_are_drawn_whole(tmp_path, drawn):
    near = {**DIFFERENCES, "huber (tuned)": (-3.0, (-6.0, 0.0))}
    plot_scores(ROWS, tmp_path / "s.png", xlabel="", differences=near, learned="learned (tuned)")
    assert drawn[0].axes[1].get_xlim()[0] < -6
    assert all(np.isfinite(drawn[0].axes[1].get_xlim()))
