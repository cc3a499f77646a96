"""`metaevo compare`: the figures, the page, and invalid input."""

import re

import numpy as np
import pytest

from metaevo import compare_runs
from metaevo.commands.compare import main
from metaevo.comparison import page


def test_the_figures_show_the_table(make_run):
    result = compare_runs([make_run("a", 100.0), make_run("b", 140.0, rate=0.5)])
    traces = page.draw_curves(result, "CartPole-v1").data
    lines = {trace.name: trace for trace in traces if trace.hoverinfo != "skip"}
    for label, part in result.middles("CartPole-v1").items():
        np.testing.assert_array_equal(lines[label].x, part.x)
        np.testing.assert_array_equal(lines[label].y, part.mean)
    bands = [trace for trace in traces if trace.fill == "toself"]
    assert all(min(band.y) < min(lines[band.name].y) for band in bands)
    shown = {(trace.y[0], trace.xaxis): trace for trace in page.draw_scores(result).data}
    best, base = result.groups
    assert shown[best.label, "x"].x == (best.iqm.value,)
    assert shown[base.label, "x"].x == (base.iqm.value,)
    difference = shown[best.label, "x2"]
    assert difference.x == (best.comparison.difference,)
    high = difference.x[0] + difference.error_x.array[0]
    assert high == pytest.approx(best.comparison.difference_interval[1])
    assert (base.label, "x2") not in shown


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
    assert [path.name for path in output.iterdir()] == ["index.html"]
    html = (output / "index.html").read_text()
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="?http', html)
    assert "alert(1)</script>" not in html
    assert re.findall("<h2>(Curves .*)</h2>", html) == ["Curves CartPole-v1", "Curves Pendulum-v1"]


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
