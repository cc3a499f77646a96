"""Figures: invalid input, hostile names, reproducible files, no global state, films."""

import numpy as np
from PIL import Image

from metaevo.judging.scores import Scores
from metaevo.reports import animation, plots

PNG = b"\x89PNG\r\n\x1a\n"


def generations(count, **changed):
    record = {"fitness_mean": 1.0, "fitness_low": 0.5, "fitness_high": 1.5, "fitness_best": 2.0}
    return [{"kind": "generation", "generation": g, **record, **changed} for g in range(count)]


def parabola(scale=1.0, offset=0.0):
    error = np.linspace(-2, 2, 41)
    return plots.LossCurve(error, scale * error**2 + offset, 2 * scale * error)


def test_hostile_names_are_not_formulas(tmp_path):
    name = r"$\frac{$ costs $1"
    plots.plot_losses({name: parabola()}, tmp_path / "l.png")
    path = Scores.of({name: [1.0, 2.0]}).plot(tmp_path / "s.png")
    assert path.read_bytes().startswith(PNG)


def test_a_film_has_a_picture_for_every_point(tmp_path):
    def draw(index):
        plots.plot_losses({"learned": parabola([0.5, 1.0, 2.0][index])}, tmp_path / "loss.png")

    (path,) = animation.animate(draw, [0, 3, 6], generations(6), tmp_path)
    with Image.open(path) as film:
        assert film.n_frames == 3
    assert not (tmp_path / "loss.png").exists()
    assert animation.animate(lambda index: None, [0, 1], generations(6), tmp_path) == []
    assert animation.animate(draw, [0], generations(6), tmp_path) == []
