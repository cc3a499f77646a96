import numpy as np
import pytest
from markupsafe import escape
from PIL import Image

from metaevo.config import ConfigError
from metaevo.parts import learners
from metaevo.parts.part import HandWritten
from metaevo.reports import film, page, pictures, plots, results, slots
from purerl import lpg, ppo
from purerl.parts import losses, optimizers, returns
from tests.metaevo.toy import untuned

HOSTILE = "<script>alert('x')</script> & \"quotes\" \x1b[2J"
FORMULA = r"$\frac{$ costs $1"
PNG = b"\x89PNG\r\n\x1a\n"


def test_hostile_text_is_shown_not_interpreted(tmp_path):
    (tmp_path / "figure.png").write_bytes(PNG)
    sections = [
        page.Text(HOSTILE, [HOSTILE]),
        page.Table(HOSTILE, [HOSTILE], [[HOSTILE]], note=HOSTILE),
        page.Image(HOSTILE, tmp_path / "figure.png", HOSTILE),
        page.folded(HOSTILE, {HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}}),
    ]
    page.write_report(tmp_path / "r.html", HOSTILE, HOSTILE, sections)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>" not in html
    assert html.count(str(escape(HOSTILE))) >= 12
    scores = untuned({FORMULA: [1.0, 2.0], "other": [1.0, 2.0]})
    front = [{"length": 3, "score": 1.25, "generations": 1, "program": FORMULA}]
    plots.save_figure(results.draw_front(front), tmp_path / "f.png")
    for path in (scores.plot(tmp_path / "s.png"), tmp_path / "f.png"):
        assert path.read_bytes().startswith(PNG)
    printed = page.Table("", ["name"], [["a\x1b[2Jb\nc\u202e"]]).text()
    assert printed.splitlines()[-1].strip() == "a?[2Jb?c?"


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "r.html"
    page.write_report(path, "old", "", [])
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"missing\.png"):
        page.write_report(path, "new", "", [page.Image("", tmp_path / "missing.png")])
    with pytest.raises(ValueError, match="zip"):
        page.write_report(path, "new", "", [page.Table("", ["a", "b"], [[1, 2], [1, 2, 3]])])
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_the_terminal_shows_boxes_last(tmp_path, capsys):
    table = page.Table("Scores", ["name", "score"], [["a", 1.5], ["b", 10.25]], highlight=[1])
    sections = [page.Text("Better", ["It is."], "better"), table, page.folded("Rest", {"x": 1})]
    page.write_report(tmp_path / "r.html", "", "", sections)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0] == ["Scores"]
    assert lines[3:-1] == [["a", "1.50"], [">", "b", "10.25"], ["Better:", "It", "is."]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.123, 0.1, 0.15), "+0.123 [+0.100, +0.150]"),
        ((-12345.6, -20000, 3000), "-12,346 [-20,000, +3,000]"),
        ((-0.01, -5.0, 4.0), "0.0 [-5.0, +4.0]"),
        ((2.0, 2.0, 2.0), "+2.000 [+2.000, +2.000]"),
        ((1.0, -np.inf, 2.0), "+1.000 [-inf, +2.000]"),
    ],
)
def test_an_estimate_has_the_decimals_that_its_interval_supports(values, expected):
    value, *interval = values
    assert page.estimate((value, interval), sign=True) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1, 2000, None], ["1", "2,000", "-"]),
        ([0.5, 123.456], ["0.50", "123.46"]),
        ([(1.0, 2.5), None], ["[1.000, 2.500]", "-"]),
        ([1e-7, 1.0, float("nan")], ["1e-07", "1.000", "nan"]),
        ([True, "text"], ["yes", "text"]),
    ],
)
def test_the_floats_of_a_column_share_their_decimals(column, expected):
    assert page.cells(column) == expected


def test_a_band_goes_on_where_values_are_missing():
    returns = [[0.0, np.nan, 2.0], [1.0, np.nan, 3.0]]
    (axes,) = plots.draw_panels([plots.Panel({"agents": (range(3), returns)})]).axes
    assert len(axes.collections[0].get_paths()) == 1


def generations(count):
    record = {"fitness_mean": 1.0, "fitness_low": 0.5, "fitness_high": 1.5, "fitness_best": 2.0}
    return [{"kind": "generation", "generation": g, **record} for g in range(count)]


def test_a_film_has_a_picture_for_every_point(tmp_path):
    def draw(index):
        panel = plots.Panel({"learned": (np.arange(5), np.arange(5) * (index + 1))})
        figures = {name: plots.draw_panels([panel]) for name in ("loss.png", "own.png")}
        figures["own.png"].set_size_inches(4 + index, 3)
        return figures

    film.animate(draw, [0, 2, 6], generations(6), tmp_path)
    film.animate(lambda *_: {}, [0, 1, 2], generations(6), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"loss.gif", "own.gif"}
    for path in tmp_path.iterdir():
        with Image.open(path) as image:
            assert image.n_frames == 3


def evolved(slot, function):
    errors = np.random.default_rng(0).normal(size=(2, 500)).astype(np.float32)
    learner = learners.find("ppo")
    part = HandWritten(slot, function)
    return pictures.Evolved(part, None, learner, ppo.Hyperparams(), lambda: errors)


def test_the_picture_of_a_loss_shows_its_slope_over_training():
    def loss(meta_params, context, prediction, target, old_prediction):
        return (1.0 + context.progress * (prediction > target)) * (prediction - target) ** 2

    _, below = pictures.value_loss(evolved("value_loss", loss))
    ages = [f"learned at {percent}%" for percent in (0, 25, 50, 75, 100)]
    assert [*below.curves] == [*ages, "squared", "huber"]
    _, start = below.curves["learned at 0%"]
    np.testing.assert_allclose(start, below.curves["squared"][1], rtol=1e-3)
    end = below.curves["learned at 100%"][1]
    np.testing.assert_allclose(end[-1] / end[0], -2, rtol=1e-3)


@pytest.mark.parametrize(
    ("slot", "function", "names"),
    [
        ("policy_loss", losses.clipped_surrogate, ["clipped_surrogate", "dpo"]),
        ("update_rule", lpg.a2c, ["a2c"]),
        ("make_optimizer", optimizers.adam, ["adam"]),
        ("schedule", optimizers.linear_schedule, ["constant", "linear", "cosine"]),
        ("targets", returns.gae, ["gae"]),
    ],
)
def test_a_function_that_ignores_time_has_one_curve(slot, function, names):
    panels = slots.PICTURES[slot].panels(evolved(slot, function))
    same = "linear" if slot == "schedule" else names[0]
    for panel in panels:
        assert [*panel.curves] == ["learned", *names]
        np.testing.assert_array_equal(panel.curves["learned"][1], panel.curves[same][1])
    if slot == "schedule":
        assert {panel.ylabel for panel in panels} == {"clip_epsilon", "entropy_coef"}
