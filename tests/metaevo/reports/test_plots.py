"""Figures: what is drawn, on which inputs, and that drawing touches nothing else."""

import matplotlib
import numpy as np
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure

from metaevo.reports import plots
from metaevo.reports.score_plots import plot_scores

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are when saved; the files are written too."""
    figures = []
    save = Figure.savefig

    def record(figure, *args, **kwargs):
        figures.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", record)
    monkeypatch.setattr(plots, "DPI", 50)  # quick
    return figures


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def generations(count, **changed):
    record = {"fitness_mean": 1.0, "fitness_std": 0.5, "fitness_best": 2.0, "diverged": 0}
    return [{"kind": "generation", "generation": g, **record, **changed} for g in range(count)]


def test_fitness(tmp_path, drawn):
    records = generations(9)
    for record in records:
        record["fitness_mean"] = float(record["generation"])
        record["fitness_of_mean"] = 3.0 if record["generation"] % 4 == 0 else None
    records.insert(3, {"kind": "evaluation", "evaluation": 0, "score": 5.0})
    path = tmp_path / "figures" / "fitness.png"
    assert plots.plot_fitness(records, path, baseline={"squared": 1.5}) == path
    assert path.read_bytes().startswith(PNG)
    assert [file.name for file in path.parent.iterdir()] == ["fitness.png"]
    (figure,) = drawn
    (axes,) = figure.axes  # nothing diverged: no panel for it
    np.testing.assert_array_equal(lines(axes)["population mean"].get_ydata(), np.arange(9))
    of_mean = lines(axes)["strategy's mean, validation seeds"]
    np.testing.assert_array_equal(of_mean.get_xdata(), [0, 4, 8])
    assert set(lines(axes)["squared"].get_ydata()) == {1.5}


def band(axes):
    """The lower and upper edge of what is shaded."""
    (vertices,) = (path.vertices for path in axes.collections[0].get_paths())
    return vertices[:, 1].min(), vertices[:, 1].max()


def test_the_band_of_candidates_stays_below_the_best(tmp_path, drawn):
    """Mean plus standard deviation reached above the best one; quantiles cannot."""
    old = generations(4, fitness_mean=1.0, fitness_std=3.0, fitness_best=2.0)
    new = generations(4, fitness_low=0.5, fitness_high=1.75)
    for records in (old, new):
        plots.plot_fitness(records, tmp_path / "f.png")
    assert [band(figure.axes[0]) for figure in drawn] == [(-2.0, 2.0), (0.5, 1.75)]
    plots.plot_fitness(old + new, tmp_path / "f.png")  # a run that was continued


@pytest.mark.parametrize("count", [1, 3])
def test_fitness_with_divergence_and_missing_values(tmp_path, drawn, count):
    records = generations(count, diverged=2, fitness_best=None, fitness_std=float("nan"))
    del records[0]["fitness_mean"]
    plots.plot_fitness(records, tmp_path / "f.png")
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["fitness", "diverged"]


def parabola(scale=1.0, offset=0.0):
    error = np.linspace(-2, 2, 41)
    return plots.LossCurve(error, scale * error**2 + offset, 2 * scale * error)


def test_losses_are_shifted_and_scaled_together_with_their_derivatives(tmp_path, drawn):
    curves = {"learned": parabola(5, -3), "squared": parabola()}
    errors = np.concatenate([np.random.default_rng(0).normal(size=500), [np.nan, 50.0]])
    plots.plot_losses(curves, tmp_path / "a.png", density=errors)
    (figure,) = drawn
    for panel in (0, 1):
        a, b = (lines(figure.axes[panel])[name].get_ydata() for name in curves)
        np.testing.assert_allclose(a, b, atol=1e-12)  # same shape
    left, right = figure.axes[:2]
    assert lines(left)["learned"].get_ydata().min() == 0
    assert lines(left)["learned"].get_ydata().max() == pytest.approx(1)
    of_squared = lines(right)["squared"].get_ydata()
    np.testing.assert_allclose(of_squared, curves["squared"].derivative / 4)


def test_a_constant_loss_can_be_drawn(tmp_path, drawn):
    error = np.linspace(-1, 1, 5)
    flat = plots.LossCurve(error, np.ones(5), np.zeros(5))
    plots.plot_losses({"learned": flat}, tmp_path / "l.png", density=[])
    assert not lines(drawn[0].axes[0])["learned"].get_ydata().any()


def test_learning_curves(tmp_path, drawn):
    curves = np.arange(12.0).reshape(3, 4)
    curves[:, 0] = np.nan
    curves[0, 1] = np.nan
    frames = np.array([1e5, 2e5, 3e5, 4e5])
    path = tmp_path / "c.png"
    both = {"learned": curves, "squared, tuned": curves[:1] + 1}
    plots.plot_learning_curves(both, frames, path, ylabel="return")
    (axes,) = drawn[0].axes
    line = lines(axes)["learned (3 seeds)"]
    np.testing.assert_array_equal(line.get_ydata(), [np.nan, 7, 6, 7])
    with pytest.raises(ValueError, match=r"squared: \(3, 3\) is not \[seeds, 4\]"):
        plots.plot_learning_curves({"squared": curves[:, 1:]}, frames, path)


def test_the_part_before_long_episodes_can_have_ended_is_marked(tmp_path, drawn):
    frames = np.array([1e3, 2e3, 3e3])
    for limit in (None, 500.0, 2500.0):
        plots.plot_learning_curves(
            {"ppo": np.ones((2, 3))}, frames, tmp_path / "c.png", complete_from=limit
        )
    marked = [[patch.get_extents() for patch in figure.axes[0].patches] for figure in drawn]
    assert [len(each) for each in marked] == [0, 0, 1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("learned", True), ("learned (tuned)", True), ("unlearned", False), ("learnedness", False)],
)
def test_is_learned(name, expected):
    assert plots.is_learned(name) is expected


def test_nothing_to_plot_is_refused(tmp_path):
    path = tmp_path / "none.png"
    for call in (
        lambda: plots.plot_fitness([{"kind": "update"}], path),
        lambda: plots.plot_losses({}, path),
        lambda: plots.plot_learning_curves({}, [], path),
        lambda: plot_scores([], path, xlabel=""),
    ):
        with pytest.raises(ValueError, match=r"no .* to plot"):
            call()
    assert not list(tmp_path.iterdir())


def test_names_are_no_formulas(tmp_path, drawn):
    name = r"$\frac{$ costs $1"
    curves = {name: parabola()}
    plots.plot_losses(curves, tmp_path / "l.png")
    row = {"name": name, "iqm": 1.0, "interval": (0.0, 2.0), "tuned": True}
    plot_scores([row], tmp_path / "s.png", xlabel=name)
    assert len(drawn) == 2


@pytest.mark.usefixtures("drawn")
def test_equal_figures_are_equal_bytes(tmp_path):
    paths = [plots.plot_fitness(generations(3), tmp_path / n) for n in ("a", "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_no_text_is_cut_off_or_overlaps(tmp_path, drawn):
    rows = [
        {"name": f"a variant with a long name, {i}", "iqm": 1e4, "interval": (1, 2e4), "tuned": i}
        for i in range(2)
    ]
    plot_scores(rows, tmp_path / "s.png", xlabel="return")
    long = "a loss whose name is rather long, number"
    curves = {f"{long} {i}": parabola(i + 1) for i in range(4)}
    plots.plot_losses(curves, tmp_path / "l.png")
    for figure in drawn:
        page = figure.bbox
        box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        assert box.x0 >= -1
        assert box.x1 <= page.x1 + 1
        assert box.y0 >= -1
        assert box.y1 <= page.y1 + 1
        top = figure.legends[0].get_window_extent().y1
        assert all(axes.get_tightbbox().y0 >= top - 1 for axes in figure.axes)


@pytest.mark.usefixtures("drawn")
def test_drawing_leaves_no_global_state(tmp_path):
    settings = dict(matplotlib.rcParams)
    plots.plot_fitness(generations(3), tmp_path / "f.png")
    assert dict(matplotlib.rcParams) == settings
    assert not Gcf.get_all_fig_managers()
