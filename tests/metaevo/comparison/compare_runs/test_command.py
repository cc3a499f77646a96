"""`metaevo compare` on synthetic runs: conclusions, files and invalid input."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import metaevo
from metaevo.commands import compare as command
from metaevo.commands.compare import main
from metaevo.comparison.compare_runs.grouping import change_together
from metaevo.comparison.compare_runs.words import NOT_REACHED, conclusion, tables, terminal
from metaevo.config import ConfigError
from metaevo.reports.numbers import number
from metaevo.runs.run_directory import RunDirectory


def analyse(*paths: Path, **options):
    return metaevo.compare_runs(paths, **options)


def efficiency_table(result):
    (table,) = (each for each in tables(result) if "threshold" in each.columns)
    return table


def test_a_planted_difference_is_found_with_its_size(make_run):
    result = analyse(make_run("a", 100.0), make_run("b", 140.0, rate=0.5))
    (pair,) = result.pairs
    assert (pair.first, pair.second) == ("learning_rate=0.5", "learning_rate=0.1")
    assert pair.verdict == "better"
    assert pair.difference.value == pytest.approx(40, abs=0.1)
    assert pair.p == pytest.approx(2 / 924)  # 6 against 6, separated
    by_value = {row.value: row for row in result.effects}
    assert np.isnan(by_value["0.5"].difference.value)
    assert by_value["0.1"].difference.value == pytest.approx(-40, abs=0.1)
    scores = pd.DataFrame(result.table())
    assert scores.groupby("group").score.mean().round().to_dict() == {
        "learning_rate=0.1": 100.0, "learning_rate=0.5": 140.0,
    }  # fmt: skip
    best = pd.DataFrame(result.table("groups")).iloc[0]
    assert (best.group, best.seeds) == ("learning_rate=0.5", 6)
    assert best.iqm_low < best.iqm < best.iqm_high
    with pytest.raises(ValueError, match="name = 'rows'"):
        result.table("rows")


def test_few_seeds_are_undecided_and_the_needed_number_is_given(make_run):
    result = analyse(make_run("a", 100.0, seeds=3), make_run("b", 140.0, rate=0.5, seeds=3))
    (pair,) = result.pairs
    assert pair.verdict == "undecided"
    assert pair.smallest_p > 0.05
    assert 3 < pair.needed < 100
    single = analyse(make_run("c", seeds=1, learner="dqn"), make_run("d", seeds=1, learner="x"))
    assert single.pairs[0].verdict == "undecided"
    assert single.pairs[0].needed == float("inf")


def test_no_run_leads_among_equals(make_run):
    result = analyse(make_run("a", 100.0), make_run("b", 100.0, rate=0.5))
    assert result.pairs[0].difference.value == 0
    assert "leads" not in conclusion(result)
    assert all(each.label in conclusion(result) for each in result.groups)


def test_p_values_are_adjusted_for_all_pairs(make_run):
    result = analyse(*(make_run(f"r{i}", 100.0 + 40 * i, rate=i / 10) for i in range(3)))
    assert result.comparisons == 3
    assert [pair.adjusted_p for pair in result.pairs] == pytest.approx([3 * 2 / 924] * 3)
    # With 4 seeds each, not even separated scores are significant after 3 comparisons.
    small = analyse(*(make_run(f"s{i}", 40.0 * i, rate=i / 10, seeds=4) for i in range(3)))
    assert {pair.verdict for pair in small.pairs} == {"undecided"}
    many = analyse(*(make_run(f"m{i}", 6.0 * i, rate=i / 10, seeds=9) for i in range(12)))
    assert len(many.pairs) == 11  # the best against the others, adjusted for all 66
    assert many.comparisons == 66
    assert [pair.verdict for pair in many.pairs] == ["undecided"] + ["better"] * 10
    order = [row.label for row in many.groups]
    assert order == [f"learning_rate={i / 10:g}" for i in reversed(range(12))]
    assert [row.group for row in many.efficiency] == order


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
    best = next(row for row in result.table("tasks") if row["task"] == "Pendulum-v1")
    assert best["iqm"] == pytest.approx(-200, abs=1)
    assert 0.9 < result.groups[0].iqm.value <= 1  # scaled to the worst and best of each task
    assert result.pairs[0].verdict == "better"
    # 4 against 4 separated on both tasks: 2 of 70 x 70 permutations.
    assert result.pairs[0].p < 0.002
    alone = analyse(paths[0], paths[3])
    assert alone.pairs == []
    assert "better" not in conclusion(alone)


def test_settings_that_change_together_have_one_effect(make_run):
    paths = [
        make_run(f"{rate}{extra}", level, rate=rate, learner=learner, extra={"e": extra})
        for rate, learner, extra, level in [
            (0.1, "ppo", 1, 100), (0.1, "ppo", 2, 101), (0.5, "dqn", 1, 140), (0.5, "dqn", 2, 141),
        ]
    ]  # fmt: skip
    result = analyse(*paths)
    assert sorted({row.setting for row in result.effects}) == ["hyperparams.e", "learner"]
    assert change_together(result.seeds) == [["learner", "hyperparams.learning_rate"]]
    rate = next(row for row in result.effects if row.value == "ppo")
    assert rate.seeds == 12
    assert rate.difference.value == pytest.approx(-40, abs=0.5)
    assert rate.p < 0.001
    assert next(row for row in result.effects if row.setting == "hyperparams.e" and row.p).p > 0.1


def test_metrics_scores_and_variants(make_run):
    paths = [make_run("a", 100.0), make_run("b", 140.0, rate=0.5)]
    assert analyse(*paths, score="area").groups[1].iqm.value < 85
    entropy = analyse(*paths, metric="entropy")
    assert [len(row.seeds) for row in entropy.groups] == [1, 1]
    scores = analyse(*paths, metric="evaluation:greedy policy")
    assert [row.iqm.value for row in scores.groups] == pytest.approx([140, 100], abs=0.1)
    assert scores.efficiency == []
    (group,) = metaevo.compare_runs(str(paths[0]), group_by="learning_rate").groups  # no lists
    assert len(group.seeds) == 6
    with pytest.raises(ConfigError, match=r"score = 'zzz'.*final"):
        analyse(*paths, score="zzz")
    with pytest.raises(ConfigError, match=r"a: has no metric 'entrpy'; it has: entropy, .*greedy"):
        analyse(*paths, metric="entrpy")
    with pytest.raises(ConfigError, match="cannot be aligned by generations"):
        analyse(*paths, align="generations")


def test_the_threshold_is_reached_at_a_hand_computed_step(make_run):
    result = analyse(make_run("a", 100.0), make_run("b", 50.0, rate=0.5), threshold=80.0)
    fast, slow = result.efficiency
    assert (
        fast.reached_at.value == 400
    )  # 100 x 2 x 4 / 10 = 80 (the spread is symmetric), at 400 or 500
    assert (slow.seeds_that_reach, slow.reached_at) == (0, (np.inf, (np.inf, np.inf)))
    (row,) = (each for each in efficiency_table(result).rows if each[0] == slow.group)
    assert NOT_REACHED in row  # once, instead of an interval


def test_the_origin_of_the_threshold_is_given_only_if_it_is_the_default(make_run):
    path = make_run("a", 100.0)
    default = analyse(path)
    level = default.efficiency[0].threshold
    same = analyse(path, threshold=level)
    assert len(efficiency_table(default).heading) > len(efficiency_table(same).heading)
    assert all(number(level) in efficiency_table(each).heading for each in (default, same))


def test_seeds_without_a_score_are_the_worst(make_run):
    path = make_run("a", 100.0, seeds=4)
    run = RunDirectory(path)
    records = list(run.read_metrics("update"))
    (path / "metrics.jsonl").unlink()
    for record in records:
        run.append_metrics({**record, "returns": [None, *record["returns"][1:]]})
    scores = [row["score"] for row in analyse(path).table()]
    assert scores[0] == min(scores[1:])


def test_page_and_numbers_are_written_and_hostile_names_escaped(make_run, tmp_path, capsys):
    hostile = "</script><script>alert(1)</script><!--\u2028$x$"
    paths = [make_run("a", extra={"n": hostile}), make_run("b", 140.0, extra={"n": "b"})]
    output = tmp_path / "out"
    assert main([*map(str, paths), "--output", str(output)], description=None) == 0
    assert str(output / "index.html") in capsys.readouterr().out
    numbers = json.loads((output / "comparison.json").read_text())
    assert numbers["pairs"][0]["difference"] == pytest.approx(40, abs=0.1)
    assert len(numbers["scores"]) == 12
    html = (output / "index.html").read_text()
    assert "default-src 'none'" in html
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="?http', html)
    assert html.count("<script") == html.count("</script>") == 3  # the data, Plotly, the program
    embedded = html.split('id="comparison-data">')[1].split("</script>")[0]
    assert "<" not in embedded
    data = json.loads(embedded)
    assert len(data["seeds"]) == 12
    assert any("</script>" in group["label"] for group in data["groupings"][0]["groups"])
    assert all(group["middles"]["steps"] for group in data["groupings"][0]["groups"])
    assert "\x1b" not in terminal(analyse(make_run("c", extra={"n": "\x1b[2J"}), paths[1]))


def test_watching_ends_with_the_last_run(make_run, tmp_path, monkeypatch):
    path = make_run("a", points=5, finished=False)
    seen = []

    def sleep(seconds: float) -> None:
        """End the run in the meantime."""
        seen.append(seconds)
        assert 'http-equiv="refresh"' in (tmp_path / "out" / "index.html").read_text()
        (path / "report.html").write_text("done")

    monkeypatch.setattr(command.time, "sleep", sleep)
    arguments = [str(path), "--output", str(tmp_path / "out"), "--watch", "7"]
    assert main(arguments, description=None) == 0
    assert seen == [7.0]
    assert 'http-equiv="refresh"' not in (tmp_path / "out" / "index.html").read_text()

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", interrupt)
    (path / "report.html").unlink()
    arguments[2] = str(tmp_path / "other")
    assert main(arguments, description=None) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "nowhere: there is no such run directory"),
        (["{run}", "--group-by", "lerning_rate"], "learning_rate"),
        (["{run}", "--group-by", ","], "names no setting"),
        (["{run}", "--watch", "0"], "must be greater than 0"),
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
