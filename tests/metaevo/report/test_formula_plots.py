"""The figure of scores against lengths."""

from PIL import Image

from metaevo.reports.formula_plots import plot_formulas


def test_it_is_drawn(tmp_path):
    row = {"iqm": 1.0, "interval": [0.5, 1.5]}
    path = plot_formulas(
        [{**row, "length": 1}, {**row, "length": 5}],
        [{**row, "name": "squared", "length": 3}, {**row, "name": "odd$", "length": None}],
        {**row, "numbers": 1000},
        tmp_path / "figure.png",
        ylabel="score",
    )
    with Image.open(path) as image:
        assert image.width == 1800
