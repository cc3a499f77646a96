import re

import numpy as np
import pytest

from metaevo import compare_runs
from metaevo.commands.compare import main
from metaevo.comparison import page


def test_the_figures_show_the_table(make_run):
    result = compare_runs([make_run("a", 100.0), make_run("b", 140.0, rate=0.5)])
    lines = {line.get_label(): line for line in page.draw_curves(result).axes[0].lines}
    for label, (x, y) in result.curves_on("CartPole-v1").items():
        line = lines[f"{label} (6 seeds)"]
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_allclose(line.get_ydata(), y.mean(axis=0))
    scores, differences = page.draw_scores(result).axes
    points = [line.get_xdata() for line in scores.lines[1::2]]
    assert np.ravel(points).tolist() == [each.iqm.value for each in result.groups]
    interval, point, _ = differences.lines
    best = result.groups[0].comparison
    assert tuple(interval.get_xdata()) == best.difference.interval
    assert point.get_xdata()[0] == best.difference.value


def test_the_page_is_one_file_with_hostile_names_escaped(make_run, tmp_path, capsys):
    hostile = "</script><script>alert(1)</script><!--\u2028$x$\x1b[2J"
    paths = [
        make_run("a", extra={"n": hostile}),
        make_run("b", 140.0, extra={"n": "b"}),
        make_run("c", env="Pendulum-v1"),
    ]
    output = tmp_path / "out"
    assert main([*map(str, paths), "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert str(output / "index.html") in printed
    assert "better" in printed
    assert "\x1b" not in printed
    names = {path.name for path in output.iterdir()}
    assert names == {"index.html", "curves.png", "scores.png"}
    html = (output / "index.html").read_text()
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="?http', html)
    assert "alert(1)</script>" not in html
    assert re.findall("<h2>(.*)</h2>", html)[1:3] == ["Curves", "Groups"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "nowhere: there is no run directory"),
        (["{run}", "--group-by", "lerning_rate"], "learning_rate"),
        (["{run}", "--output", "{run}/config.yaml/x"], "cannot be written"),
        (["{run}", "--output", "{run}"], "already holds a run"),
        (["{empty}"], "anything to compare yet"),
    ],
)
def test_invalid_input_is_refused_in_one_line(
    arguments, text, make_run, tmp_path, monkeypatch, refused
):
    monkeypatch.chdir(tmp_path)
    places = {"run": make_run("run"), "empty": make_run("empty", points=0, finished=False)}
    argv = [argument.format(**places) for argument in arguments]
    assert text in refused(main, argv)
    assert not (tmp_path / "runs").exists()  # no directory was made
