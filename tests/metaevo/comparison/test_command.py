"""`metaevo compare` on synthetic runs: statistics, the page, and invalid input."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import metaevo
from metaevo.commands.compare import main
from metaevo.comparison import page
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from metaevo.statistics import rank_test


def analyse(*paths: Path, **options):
    return metaevo.compare_runs(paths, **options)


def test_a_planted_difference_is_found_with_its_size(make_run):
    result = analyse(make_run("a", 100.0), make_run("b", 140.0, rate=0.5))
    best, base = result.groups
    assert (best.label, base.label) == ("learning_rate=0.5", "learning_rate=0.1")
    assert result.baseline == base.label
    assert base.comparison is None
    assert best.comparison.conclusion == "better"
    assert best.comparison.difference == pytest.approx(40, abs=0.1)
    assert best.comparison.p == pytest.approx(2 / 924)  # 6 against 6, separated
    scores = pd.DataFrame(result.table("scores"))
    assert scores.groupby("group").score.mean().round().to_dict() == {
        "learning_rate=0.1": 100.0, "learning_rate=0.5": 140.0,
    }  # fmt: skip
    rows = pd.DataFrame(result.table())
    assert rows.verdict.tolist() == ["better", "baseline"]
    assert (rows.group[0], rows.seeds[0]) == ("learning_rate=0.5", 6)
    assert rows.iqm_low[0] < rows.iqm[0] < rows.iqm_high[0]
    with pytest.raises(ValueError, match="name = 'rows'"):
        result.table("rows")


def test_the_first_run_is_the_baseline(make_run):
    low, high = make_run("a", 100.0), make_run("b", 140.0, rate=0.5)
    base, worse = analyse(high, low).groups
    assert base.comparison is None
    assert worse.comparison.conclusion == "worse"
    assert worse.comparison.difference == pytest.approx(-40, abs=0.1)
    assert analyse(high, low.parent).baseline == base.label  # the folder holds both


def test_few_seeds_are_undecided(make_run):
    result = analyse(make_run("a", 100.0, seeds=3), make_run("b", 140.0, rate=0.5, seeds=3))
    assert result.groups[0].comparison.conclusion == "undecided"
    single = analyse(make_run("c", seeds=1, learner="dqn"), make_run("d", seeds=1, learner="x"))
    assert [each.comparison.conclusion for each in single.groups if each.comparison] == [
        "undecided"
    ]


def test_p_values_are_adjusted_for_all_groups(make_run):
    result = analyse(*(make_run(f"r{i}", 100.0 + 40 * i, rate=i / 10) for i in range(3)))
    assert [each.comparison.p for each in result.groups[:2]] == pytest.approx([2 * 2 / 924] * 2)
    # With 4 seeds each, not even separated scores are significant after 2 comparisons.
    small = analyse(*(make_run(f"s{i}", 40.0 * i, rate=i / 10, seeds=4) for i in range(3)))
    assert {each.comparison.conclusion for each in small.groups[:2]} == {"undecided"}
    many = analyse(*(make_run(f"m{i}", 2.0 * i, rate=i / 10, seeds=9) for i in range(12)))
    order = [each.label for each in many.groups]
    assert order == [f"learning_rate={i / 10:g}" for i in reversed(range(12))]
    verdicts = [each.comparison.conclusion for each in many.groups[:-1]]
    assert (verdicts[0], verdicts[-1]) == ("better", "undecided")
    # Holm's method leaves the largest p-value as it is.
    second, base = ([many.scores[seed] for seed in each.seeds] for each in many.groups[-2:])
    assert many.groups[-2].comparison.p == pytest.approx(rank_test([second], [base]))


def test_runs_of_different_length_are_scored_at_their_common_end(make_run):
    long, short = make_run("a", 100.0), make_run("b", 100.0, rate=0.5, points=3, finished=False)
    result = analyse(long, short)
    assert result.selection.ends == {"CartPole-v1": 300}
    # At 300 of 1,000 steps both curves have reached 0.6 of their level.
    assert [row.iqm.value for row in result.groups] == pytest.approx([60, 60], abs=0.1)
    assert [source.complete for source in result.sources] == [True, False]
    whole = analyse(long, short, full_length=True)
    assert [row.iqm.value for row in whole.groups] == pytest.approx([100, 60], abs=0.1)


def test_tasks_are_strata(make_run):
    paths = [
        make_run(f"{env}{rate}", level, rate=rate, env=env, seeds=4, spread=1.0)
        for env, rate, level in [
            ("CartPole-v1", 0.1, 100.0), ("CartPole-v1", 0.5, 50.0),
            ("Pendulum-v1", 0.1, -200.0), ("Pendulum-v1", 0.5, -1000.0),
        ]
    ]  # fmt: skip
    result = analyse(*paths)
    assert [row.label for row in result.groups] == ["learning_rate=0.1", "learning_rate=0.5"]
    assert result.table()[0]["Pendulum-v1"] == pytest.approx(-200, abs=1)
    assert 0.9 < result.groups[0].iqm.value <= 1  # scaled to the worst and best of each task
    worse = result.groups[1].comparison
    assert worse.conclusion == "worse"
    # 4 against 4 separated on both tasks: 2 of 70 x 70 permutations.
    assert worse.p < 0.002
    alone = analyse(paths[0], paths[3])
    assert [each.comparison for each in alone.groups] == [None, None]
    assert sorted(row["verdict"] or "" for row in alone.table()) == ["", "baseline"]


def test_metrics_scores_and_variants(make_run):
    paths = [make_run("a", 100.0), make_run("b", 140.0, rate=0.5)]
    assert analyse(*paths, score="area").groups[1].iqm.value < 85
    entropy = analyse(*paths, metric="entropy")
    assert [len(row.seeds) for row in entropy.groups] == [1, 1]
    scores = analyse(*paths, metric="evaluation:greedy policy")
    assert [row.iqm.value for row in scores.groups] == pytest.approx([140, 100], abs=0.1)
    assert scores.middles == {}
    (group,) = metaevo.compare_runs(str(paths[0]), group_by="learning_rate").groups  # no lists
    assert len(group.seeds) == 6
    with pytest.raises(ConfigError, match=r"score = 'zzz'.*final"):
        analyse(*paths, score="zzz")
    with pytest.raises(ConfigError, match=r"a: has no metric 'entrpy'; it has: entropy, .*greedy"):
        analyse(*paths, metric="entrpy")
    with pytest.raises(ConfigError, match="cannot be aligned by generations"):
        analyse(*paths, align="generations")


def test_seeds_without_a_score_are_the_worst(make_run):
    path = make_run("a", 100.0, seeds=4)
    run = RunDirectory(path)
    records = list(run.read_metrics("update"))
    (path / "metrics.jsonl").unlink()
    for record in records:
        run.append_metrics({**record, "returns": [None, *record["returns"][1:]]})
    scores = [row["score"] for row in analyse(path).table("scores")]
    assert scores[0] == min(scores[1:])


# --- The page -----------------------------------------------------------------------------------


def test_the_figures_show_the_table(make_run):
    result = analyse(make_run("a", 100.0), make_run("b", 140.0, rate=0.5))
    lines = {
        trace.name: trace for trace in page.draw_curves(result).data if trace.hoverinfo != "skip"
    }
    for label, part in result.middles["CartPole-v1"].items():
        np.testing.assert_array_equal(lines[label].x, part.x)
        np.testing.assert_array_equal(lines[label].y, part.iqm)
    bands = [trace for trace in page.draw_curves(result).data if trace.fill == "toself"]
    assert all(min(band.y) < min(lines[band.name].y) for band in bands)
    points = page.draw_scores(result).data
    shown = {(trace.y[0], trace.xaxis): trace for trace in points}
    best, base = result.groups
    assert shown[best.label, "x"].x == (best.iqm.value,)
    assert shown[base.label, "x"].x == (base.iqm.value,)
    difference = shown[best.label, "x2"]
    assert difference.x == (best.comparison.difference,)
    high = difference.x[0] + difference.error_x.array[0]
    assert high == pytest.approx(best.comparison.difference_interval[1])
    assert (base.label, "x2") not in shown


def test_each_task_has_a_panel(make_run):
    paths = [make_run(env, env=env) for env in ("CartPole-v1", "Pendulum-v1")]
    result = analyse(*paths)
    figure = page.draw_curves(result)
    assert {trace.yaxis for trace in figure.data} == {"y", "y2"}
    assert [each.text for each in figure.layout.annotations] == ["CartPole-v1", "Pendulum-v1"]
    assert sum(bool(trace.showlegend) for trace in figure.data) == len(result.groups)


def test_the_page_is_one_file_with_hostile_names_escaped(make_run, tmp_path, capsys):
    hostile = "</script><script>alert(1)</script><!--\u2028$x$"
    paths = [make_run("a", extra={"n": hostile}), make_run("b", 140.0, extra={"n": "b"})]
    output = tmp_path / "out"
    assert main([*map(str, paths), "--output", str(output)], description=None) == 0
    printed = capsys.readouterr().out
    assert str(output / "index.html") in printed
    assert "better" in printed
    assert [path.name for path in output.iterdir()] == ["index.html"]
    html = (output / "index.html").read_text()
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="?http', html)
    assert "alert(1)</script>" not in html
    assert "\x1b" not in page.terminal(analyse(make_run("c", extra={"n": "\x1b[2J"}), paths[1]))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "nowhere: there is no such run directory"),
        (["{run}", "--group-by", "lerning_rate"], "learning_rate"),
        (["{run}", "--group-by", ","], "names no setting"),
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
    assert text in refused(main, argv, description=None)
    assert not (tmp_path / "runs").exists()  # no directory was made
