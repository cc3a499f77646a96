import numpy as np
import pytest

from metaevo.comparison import selection
from metaevo.comparison.recorded import Curve, RecordedRun, direction
from metaevo.comparison.selection import group
from metaevo.config import ConfigError


def curve(x=(), y=(), **config) -> Curve:
    rows = [{"frames": at, "m": value} for at, value in zip(x, y, strict=True)]
    if not rows:
        return Curve(RecordedRun("r", config, []), "0", np.empty(0), np.empty(0), 0.0)
    return RecordedRun("r", config, rows).curves("m")[0]


def sizes(members, by=None) -> dict[str, int]:
    return {label: len(own) for label, own in group(members, by, []).items()}


@pytest.mark.parametrize(
    ("expected", "metrics"),
    {
        "higher": ["mean_return", "fitness_of_mean", "best_value", "evaluation:learned"],
        "lower": ["value_loss", "diverged"],
        None: ["entropy", "policy_loss", "q_value", "accuracy"],
    }.items(),
)  # fmt: skip
def test_directions(expected, metrics):
    assert {direction(metric) for metric in metrics} == {expected}


def test_a_problem_with_other_fields_is_another_task():
    game = {"problem": "games.py:Game"}
    configs = [
        {**game, "payoffs": [[-1, -3], [0, -2]]},
        {**game, "payoffs": [[0, -1], [1, -100]]},
        {"problem": "games.py:Talk", "payoffs": [[-1, -3], [0, -2]]},
        {"task.env": "CartPole-v1"},
    ]
    tasks = [curve(**config).run.task for config in configs]
    assert len(set(tasks)) == 4
    other = curve(**configs[1], **{"strategy.sigma": 1.0})
    assert other.run.task == tasks[1]
    assert list(other.run.settings) == ["strategy.sigma"]


def test_groups_are_seeds_with_the_same_values():
    found = [curve(a=a, b=b) for a in (10, 9) for b in ("x", "y")] + [curve(b="x")]
    assert sizes(found, ["a"]) == {"a=10": 2, "a=9": 2, "a=(not set)": 1}
    assert list(sizes(found[:4], ["b", "a"])) == ["b=x, a=10", "b=y, a=10", "b=x, a=9", "b=y, a=9"]
    same = [
        curve(**{"lr": 1.0, "run.wandb": "offline", "run.seed": 1, "n": 1e-3}),
        curve(**{"lr": 1, "run.wandb": "disabled", "run.seed": 2, "n": 0.001}),
    ]
    assert list(sizes(same).values()) == [2]  # bookkeeping and the format of numbers do not count
    # Settings that change together: a note has those that are not in the labels.
    notes = []
    together = [
        curve(learner=learner, e=e, **{"h.x": learner})
        for learner in ("ppo", "dqn")
        for e in (1, 2)
    ]
    assert set(group(together, None, notes)) == {
        f"e={e}, learner={x}" for e in (1, 2) for x in ("dqn", "ppo")
    }
    assert notes == ["the groups differ in other settings, too: h.x"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("lerning_rate", "did you mean learning_rate"),
        ("size", "env.size, net.size"),
        ("qqq", "one setting: hyperparams.learning_rate"),
    ],
)
def test_unknown_keys_are_refused(key, text):
    found = [
        curve(**{"hyperparams.learning_rate": rate, "net.size": 1, "env.size": 2})
        for rate in (1, 2)
    ]
    with pytest.raises(ConfigError, match=text):
        group(found, [key], [])
    assert len(sizes(found, ["learning_rate"])) == 2  # the last part is enough


@pytest.mark.parametrize(
    ("end", "how", "expected"),
    [
        (100, "final", 7),  # beyond 90
        (40, "final", 50),
        (30, "final", 10),  # the last one that is known
        (40, "area", 650 / 30),  # trapezoids: 10 x 5 + 20 x 30 over a width of 30
        (5, "final", np.nan),
    ],
)
def test_scores_of_a_curve_by_hand(end, how, expected):
    x, y = np.array([10.0, 20, 40, 91, 100]), np.array([0.0, 10, 50, 6, 8])
    assert selection.score(x, y, end, how) == pytest.approx(expected, nan_ok=True)


def test_curves_are_aligned_where_all_seeds_are_known():
    found = [
        curve([0, 10, 20], [0, 10, 20]),
        curve([5, 10, 15], [1, np.nan, 3]),  # missing values are bridged, not zero
        curve(),  # without a value
    ]
    points, values = selection.aligned(found)
    assert points.tolist() == [5, 10, 15]
    assert values.tolist() == [[5, 10, 15], [1, 2, 3]]
    points, _ = selection.aligned([curve(range(1000), [0] * 1000)])
    assert len(points) == selection.POINTS
