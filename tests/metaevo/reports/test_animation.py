"""Films of what evolves: which points are shown, on which axes, beside which fitness."""

import numpy as np
from PIL import Image

from metaevo.reports import animation, plots

RECORDS = [
    {"generation": g, "fitness_mean": float(g), "fitness_of_mean": g if g % 2 else None}
    for g in range(6)
]


def parabola(path, scale):
    error = np.linspace(-1, 1, 11)
    curve = plots.LossCurve(error, scale * error**2, 2 * scale * error)
    return plots.plot_losses({"learned": curve}, path / "loss.png")


def test_a_film_has_a_picture_for_every_point(tmp_path):
    scales = [0.5, 1.0, 2.0]
    (path,) = animation.animate(
        lambda index: parabola(tmp_path, scales[index]), [0, 3, 6], RECORDS, tmp_path / "figures"
    )
    assert path == tmp_path / "figures" / "loss.gif"
    with Image.open(path) as film:
        assert film.n_frames == 3
        pictures = []
        for index in range(3):
            film.seek(index)
            pictures.append(np.asarray(film.convert("RGB"), int))
    assert (pictures[0] != pictures[1]).any()
    assert not (tmp_path / "loss.png").exists()  # figures of a film are not written


def test_the_axes_of_a_film_stay_the_same(tmp_path):
    figures = []
    for reach in (1.0, 3.0):
        with plots.collected() as found:
            plots.plot_learning_curves(
                {"a": np.ones((2, 2)) * reach}, [1.0, 10.0 * reach], tmp_path / "c.png"
            )
        figures.append(found["c.png"])
    animation._share_limits(figures)
    limits = [(axes.get_xlim(), axes.get_ylim()) for (axes,) in (f.axes for f in figures)]
    assert limits[0] == limits[1]
    assert limits[0][0][1] >= 30
    assert limits[0][1][0] <= 1
    assert limits[0][1][1] >= 3


def test_without_points_or_figures_there_is_no_film(tmp_path):
    assert animation.animate(lambda index: None, [0, 1], RECORDS, tmp_path) == []
    assert animation.animate(lambda index: parabola(tmp_path, 1.0), [0], RECORDS, tmp_path) == []
