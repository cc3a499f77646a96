"""Groups of seeds, curves on a common axis, and scores of curves."""

import numpy as np
import pytest

from metaevo.comparison import curves
from metaevo.comparison.grouping import change_together, group
from metaevo.comparison.seed_run import SeedRun
from metaevo.config import ConfigError
from metaevo.statistics import iqm


def seed(name="r", number="0", x=(), y=(), **config) -> SeedRun:
    return SeedRun(
        name, number, config, {"steps": np.array(x, float)}, {"m": np.array(y, float)}, "m"
    )


def test_bookkeeping_and_number_format_do_not_split_groups():
    seeds = [
        seed(**{"lr": 1.0, "run.wandb": "offline", "run.seed": 1, "n": 1e-3}),
        seed(**{"lr": 1, "run.wandb": "disabled", "run.seed": 2, "n": 0.001}),
    ]
    assert len(group(seeds)) == 1


def test_other_studies_roles_and_games_are_other_tasks():
    talk = {"task.env": "CartPole-v1", "study": "cheap_talk"}
    adversary, ally = seed(**talk, role="adversary"), seed(**talk, role="ally")
    dilemma = seed(**{"study": "shaping", "game.payoffs": [[-1, -3], [0, -2]]})
    chicken = seed(**{"study": "shaping", "game.payoffs": [[0, -1], [1, -100]]})
    alone = seed(**{"task.env": "CartPole-v1"})
    assert len({each.task for each in (adversary, ally, dilemma, chicken, alone)}) == 5
    assert seed(**talk, role="ally", **{"channel.scale": 1.0}).task == ally.task


def test_groups_by_a_key_pool_the_others_and_are_ordered_as_numbers():
    seeds = [seed(a=a, b=b) for a in (10, 9) for b in ("x", "y")] + [seed(b="x")]
    assert [(g.label, len(g.seeds)) for g in group(seeds, ["a"])] == [
        ("a=9", 2), ("a=10", 2), ("a=(not set)", 1),
    ]  # fmt: skip
    assert [g.label for g in group(seeds[:4], ["b", "a"])] == [
        "b=x, a=9", "b=x, a=10", "b=y, a=9", "b=y, a=10",
    ]  # fmt: skip


def test_settings_that_change_together():
    seeds = [
        seed(**{"learner": learner, "h.rate": rate, "h.e": e})
        for learner, rate in (("ppo", 0.1), ("dqn", 0.5)) for e in (1, 2)
    ]  # fmt: skip
    assert change_together(seeds) == [["learner", "h.rate"]]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("lerning_rate", "did you mean learning_rate"),
        ("size", "it may be env.size or net.size"),
        ("qqq", "the runs differ in: hyperparams.learning_rate"),
    ],
)
def test_unknown_keys_are_refused(key, text):
    seeds = [
        seed(**{"hyperparams.learning_rate": rate, "net.size": 1, "env.size": 2}) for rate in (1, 2)
    ]
    with pytest.raises(ConfigError, match=text):
        group(seeds, [key])
    assert len(group(seeds, ["learning_rate"])) == 2  # the last part is enough


def test_scores_of_a_curve_by_hand():
    x, y = np.array([10.0, 20, 40, 91, 100]), np.array([0.0, 10, 50, 6, 8])
    assert curves.score(x, y, 100, "final") == 7  # beyond 90
    assert curves.score(x, y, 40, "final") == 50
    assert curves.score(x, y, 30, "final") == 10  # the last one that is known
    assert curves.score(x, y, 100, "best") == 50
    assert curves.score(x, y, 20, "best") == 10
    # trapezoids: 10 x 5 + 20 x 30 over a width of 30
    assert curves.score(x, y, 40, "area") == pytest.approx(650 / 30)
    assert np.isnan(curves.score(x, y, 5, "final"))


def test_curves_are_aligned_where_they_are_known():
    first = (np.array([0.0, 10, 20]), np.array([0.0, 10, 20]))
    second = (np.array([5.0, 15]), np.array([1.0, 3]))
    points = curves.grid([first, second])
    assert points.tolist() == [0, 5, 10, 15, 20]
    aligned = curves.align([first, second], points)
    np.testing.assert_array_equal(aligned[0], [0, 5, 10, 15, 20])
    np.testing.assert_array_equal(aligned[1], [np.nan, 1, 2, 3, np.nan])
    assert curves.middle(points, aligned).x.tolist() == [5, 10, 15]
    many = curves.grid([(np.linspace(0, 1, 1000), np.zeros(1000))])
    assert len(many) == curves.POINTS


def test_missing_values_are_bridged_and_never_counted_as_zero():
    one = seed(x=[1, 2, 3, 4], y=[np.nan, 4, np.nan, 8])
    x, y = curves.curve(one, "m", "steps")
    assert x.tolist() == [2, 4]
    assert curves.align([(x, y)], np.array([1.0, 2, 3, 4]))[0].tolist()[1:] == [4, 6, 8]
    assert curves.reach(one, "steps") == 4


def test_the_middle_is_the_iqm_up_to_the_shortest_seed():
    rng = np.random.default_rng(0)
    aligned = rng.normal(size=(8, 5)) + np.arange(5)
    aligned[3, 4] = np.nan
    part = curves.middle(np.arange(5.0), aligned)
    assert part.x.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(part.iqm, iqm(aligned[:, :4], axis=0))
    assert np.all(part.low <= part.iqm)
    assert np.all(part.iqm <= part.high)
