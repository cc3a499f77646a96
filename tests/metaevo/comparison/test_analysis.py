import numpy as np
import pandas as pd
import pytest

import metaevo
from metaevo import compare_runs
from metaevo.config import ConfigError
from metaevo.statistics import rank_test
from tests.metaevo.comparison.conftest import write_records


def test_a_planted_difference_is_found_with_its_size(make_run):
    low, high = make_run("a", 100.0), make_run("b", 140.0, rate=0.5)
    result = compare_runs([low, high])
    best, base = result.groups
    assert (best.label, base.label) == ("learning_rate=0.5", "learning_rate=0.1")
    assert (result.baseline, base.comparison) == (base.label, None)
    assert best.comparison.conclusion == "better"
    assert best.comparison.difference.value == pytest.approx(40, abs=0.1)
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
    # The first run is the baseline.
    base, worse = compare_runs([high, low]).groups
    assert base.comparison is None
    assert worse.comparison.conclusion == "worse"
    assert worse.comparison.difference.value == pytest.approx(-40, abs=0.1)
    assert compare_runs([high, low.parent]).baseline == base.label  # the folder holds both


def test_p_values_are_adjusted_for_all_groups(make_run):
    result = compare_runs([make_run(f"r{i}", 100.0 + 40 * i, rate=i / 10) for i in range(3)])
    assert [each.comparison.p for each in result.groups[:2]] == pytest.approx([2 * 2 / 924] * 2)
    # With 4 seeds each, not even separated scores are significant after 2 comparisons.
    small = compare_runs([make_run(f"s{i}", 40.0 * i, rate=i / 10, seeds=4) for i in range(3)])
    assert {each.comparison.conclusion for each in small.groups[:2]} == {"undecided"}
    many = compare_runs([make_run(f"m{i}", 2.0 * i, rate=i / 10, seeds=9) for i in range(5)])
    assert [each.label for each in many.groups] == [
        f"learning_rate={i / 10:g}" for i in reversed(range(5))
    ]
    # Holm's method leaves the largest p-value as it is.
    second, base = ([curve.score for curve in each.curves] for each in many.groups[-2:])
    assert many.groups[-2].comparison.p == pytest.approx(rank_test(second, base))


def test_runs_of_different_length_are_scored_at_their_common_end(make_run):
    long, short = make_run("a", 100.0), make_run("b", 100.0, rate=0.5, points=3, finished=False)
    result = compare_runs([long, short])
    # At 300 of 1,000 steps both curves have reached 0.6 of their level.
    assert [row.iqm.value for row in result.groups] == pytest.approx([60, 60], abs=0.1)
    assert any("scored at 300 environment steps" in note for note in result.notes)
    assert f"{short}: is not finished" in result.notes


def test_tasks_are_strata(make_run):
    paths = [
        make_run(f"{env}{rate}", level, rate=rate, env=env, seeds=4, spread=1.0)
        for env, rate, level in [
            ("CartPole-v1", 0.1, 100.0), ("CartPole-v1", 0.5, 50.0),
            ("Pendulum-v1", 0.1, -200.0), ("Pendulum-v1", 0.5, -1000.0),
        ]
    ]  # fmt: skip
    result = compare_runs(paths)
    assert [row.label for row in result.groups] == ["learning_rate=0.1", "learning_rate=0.5"]
    assert result.table()[0]["Pendulum-v1"] == pytest.approx(-200, abs=1)
    assert 0.9 < result.groups[0].iqm.value <= 1  # scaled to the worst and best of each task
    worse = result.groups[1].comparison
    assert worse.conclusion == "worse"
    # 4 against 4 separated on both tasks: 2 of 70 x 70 permutations.
    assert worse.p < 0.002
    alone = compare_runs([paths[0], paths[3]])
    assert [each.comparison for each in alone.groups] == [None, None]
    assert sorted(row["verdict"] or "" for row in alone.table()) == ["", "baseline"]


def test_metrics_scores_and_variants(make_run):
    paths = [make_run("a", 100.0), make_run("b", 140.0, rate=0.5)]
    assert compare_runs(paths, score="area").groups[1].iqm.value < 85
    entropy = compare_runs(paths, metric="entropy")
    assert [len(row.curves) for row in entropy.groups] == [1, 1]
    scores = compare_runs(paths, metric="evaluation:greedy policy")
    assert [row.iqm.value for row in scores.groups] == pytest.approx([140, 100], abs=0.1)
    assert not scores.axis
    (group,) = metaevo.compare_runs(str(paths[0]), group_by="learning_rate").groups  # no lists
    assert len(group.curves) == 6
    with pytest.raises(ConfigError, match=r"score = 'zzz'.*final"):
        compare_runs(paths, score="zzz")
    with pytest.raises(ConfigError, match=r"a: has no metric 'entrpy'; it has: entropy, .*greedy"):
        compare_runs(paths, metric="entrpy")


def training(path, *, rate, seed, values, diverged=0, agents=1):
    """A training with some metrics; None where the parameters of its agent are no numbers."""
    config = {
        "seeds": agents, "task": {"env": "CartPole-v1"}, "train": {"total_timesteps": 400},
        "hyperparams": {"learning_rate": rate}, "run": {"seed": seed},
    }  # fmt: skip
    first = {"frames": 100, "diverged": 0, **(dict.fromkeys(values, 0.0) if diverged else values)}
    later = [{"frames": 100 * i, "diverged": diverged, **values} for i in (2, 3, 4)]
    return write_records(path, config, "update", [first, *later])


@pytest.mark.parametrize(("metric", "left"), [("value_loss", 10), ("entropy", 2)])
def test_seeds_that_diverged_do_not_win(tmp_path, metric, left):
    """Of one rate ten that end at 5 to 6, of another two at 1 and eight that diverged."""
    paths = []
    for seed in range(10):
        paths.append(training(tmp_path / f"a{seed}", rate=0.1, seed=seed,
                              values={metric: 5 + seed / 10}))  # fmt: skip
        lost = seed >= 2
        paths.append(training(tmp_path / f"b{seed}", rate=0.5, seed=seed, diverged=int(lost),
                              values={metric: None if lost else 1 + seed / 10}))  # fmt: skip
    result = compare_runs(paths, metric=metric)
    diverged = next(each for each in result.groups if each.label == "learning_rate=0.5")
    assert diverged.comparison.conclusion == "undecided"
    # Of an unknown direction they are left out, else they count as the worst one.
    scores = [curve.score for curve in diverged.curves]
    assert scores == [1.0, 1.1] + [pytest.approx(5.9)] * (left - 2)
    assert any("have no score" in note for note in result.notes)


def test_a_lower_loss_is_better(tmp_path):
    paths = [
        training(tmp_path / f"{rate}-{seed}", rate=rate, seed=seed,
                 values={"value_loss": level + seed / 100})
        for rate, level in [(0.1, 5.0), (0.5, 2.0)] for seed in range(6)
    ]  # fmt: skip
    result = compare_runs(paths, metric="value_loss")
    best, base = result.groups
    assert (best.label, base.label) == ("learning_rate=0.5", result.baseline)
    assert best.comparison.conclusion == "better"
    assert best.comparison.difference.value == pytest.approx(-3, abs=0.01)
    assert best.comparison.probability_of_improvement.value == 1.0
    assert best.comparison.difference.interval[1] < 0
    assert base.iqm.value == pytest.approx(5.025)


def evolution(path, sigma, held_out, of_mean):
    config = {"strategy": {"sigma": sigma}, "evolution": {"generations": 3}, "run": {"seed": 0}}
    records = [
        {"fitness_mean": 1.0, "fitness_of_mean": of_mean if index == 0 else None}
        for index in range(3)
    ]
    scores = held_out and {"learned": held_out, "squared": [0] * 8}
    config |= {"task": {"env": "CartPole-v1"}}
    return write_records(path, config, "generation", records, scores)


def test_evolutions_are_judged_by_their_held_out_scores(tmp_path):
    """Whatever their validations were, of which the last may be long ago."""
    low, high = np.linspace(10, 11, 8).tolist(), np.linspace(20, 21, 8).tolist()
    paths = [evolution(tmp_path / "a", 0.1, low, 99.0), evolution(tmp_path / "b", 0.5, high, 1.0)]
    result = compare_runs(paths)
    best = result.groups[0]
    assert best.comparison.difference.value == pytest.approx(10)
    # Of the agents of one evolution each: nothing about evolutions.
    assert (best.label, best.comparison.conclusion) == ("sigma=0.5", "undecided")
    assert [len(row.curves) for row in result.groups] == [1, 1]
    squared = compare_runs(paths, metric="evaluation:squared")
    assert [row.iqm.value for row in squared.groups] == [0, 0]
    paths.append(evolution(tmp_path / "c", 0.9, None, 50.0))
    assert compare_runs(paths).metric == "fitness_of_mean"
