"""Submissions to the leaderboard: complete ones are accepted, all others name what is wrong."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from metaevo.comparison.generality import result, submission
from metaevo.comparison.generality.measure import settings_of
from metaevo.comparison.generality.rules import rule_of
from metaevo.comparison.generality.tasks import benchmark
from metaevo.config import ConfigError

LIST = dataclasses.replace(
    benchmark(), tasks={name: benchmark().tasks[name] for name in ("cartpole", "grid")}
)
RULE = rule_of("dpo")
RATES = list(LIST.learning_rates["default"])
ENDS = {name: {"random": [0.0, 0.1], "tuned": [1.0, 1.1]} for name in LIST.tasks}


def submitted():
    measured = {
        name: {"learning_rate": RATES[1], "scores": [0.5, None, *np.linspace(0, 1, 6)]}
        for name in LIST.tasks
    }
    tuned = {}
    for name in LIST.tasks:
        *_, (rate, *others) = (
            each.items() for each in settings_of(LIST, name, RATES, all_tuned=True)
        )
        tuned[name] = {
            "learning_rate": rate[1],
            "others": dict(others),
            "scores": list(np.linspace(0.2, 1, 8)),
        }
    row = result.result(LIST, RULE, RATES, measured, ENDS, tuned=tuned)
    content = submission.submission(LIST, row, "metaevo generality dpo --submit --all-tuned")
    return json.loads(json.dumps(content))


def saved(content, tmp_path):
    path = tmp_path / "submission.json"
    path.write_text(json.dumps(content))
    return path


def checked(content, tmp_path, rule=RULE):
    found = submission.read(saved(content, tmp_path))
    submission.check(found, "x.json", LIST, rule, ENDS)


def test_measured_results_are_accepted(tmp_path):
    checked(submitted(), tmp_path)


def test_the_first_score_has_the_hyperparameters_of_the_list(tmp_path):
    content = submitted()
    content["row"]["tasks"]["grid"] = content["row"]["tuned"]["by_task"]["grid"]
    with pytest.raises(ConfigError, match=r"row.tasks.grid = "):
        checked(content, tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("row.version", 99, "row.version = 99"),
        ("row.version", 0, "row.version = 0"),
        ("row.tasks.grid", None, "missing: grid"),
        ("row.tasks.grid.scores", [1.0, 2.0], "row.tasks.grid.scores"),
        ("row.tasks.grid.scores", None, "has no 'row.tasks.grid.scores'"),
        ("row.tasks.grid.learning_rate", 0.123, "row.tasks.grid = "),
        ("row.tasks.grid.scores", [0.9] * 8, "row.score.iqm"),
        ("row.tasks.other", {"learning_rate": RATES[0], "scores": [0.0] * 8}, "a task of the list"),
        ("row.key", "0000", "row.key = '0000': must be"),
        ("row.slot", "value_loss", "row.key"),
        ("row.seen", ["grid"], "row.seen"),
        ("row.score.iqm", 3.0, "row.score.iqm = 3.0"),
        ("row.learning_rates", [0.1], "learning_rate"),
        ("tasks.grid", "0000", "tasks.grid = '0000': must be the digest"),
        ("versions", None, "has no 'versions'"),
        ("row.score", None, "has no 'row.score'"),
        ("row.tuned.iqm", 3.0, "row.tuned.iqm = 3.0"),
        ("row.tuned.by_task.grid.others", {"gae_lambda": 0.5}, "row.tuned.by_task.grid = "),
        ("row.tuned.by_task.grid", None, "row.tuned.by_task = "),
    ],
)
def test_invalid_values_are_named(path, value, message, tmp_path):
    content = submitted()
    *outer, last = path.split(".")
    inner = content
    for key in outer:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    with pytest.raises(ConfigError) as error:
        checked(content, tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_another_rule_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"row.key.*digest of spo in policy_loss"):
        checked(submitted(), tmp_path, rule_of("spo"))


def test_a_learner_may_not_support_a_task(tmp_path):
    """A row is complete without the tasks on which its learner cannot be trained."""
    rule = rule_of("dqn")
    rates = LIST.learning_rates["dqn"]
    measured = {"grid": {"learning_rate": rates[0], "scores": [0.5] * 8}}
    row = result.result(LIST, rule, rates, measured, ENDS, ["cartpole"])
    content = submission.submission(LIST, row, "metaevo generality dqn --submit", "dqn")
    found = submission.read(saved(json.loads(json.dumps(content)), tmp_path))
    submission.check(found, "x.json", LIST, rule, ENDS, ["cartpole"])
    with pytest.raises(ConfigError, match="missing: cartpole"):
        submission.check(found, "x.json", LIST, rule, ENDS)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda scores: scores, "the same scores"),
        (lambda scores: scores + 0.01, "within chance"),
        (lambda scores: scores + 2.0, None),
    ],
)
def test_a_tenth_of_the_scores_is_reproduced(change, lines, monkeypatch, capsys):
    content, trained = submitted(), []

    class Bench:
        def __init__(self, benchmark, task, rule):
            trained.append(task)

        def score(self, setting):
            row, name = content["row"], trained[-1]
            kept = row["tasks"][name]
            if len(setting) > 1:  # all hyperparameters were tuned
                kept = row["tuned"]["by_task"][name]
            assert setting == {"learning_rate": kept["learning_rate"], **kept.get("others", {})}
            return change(np.array(kept["scores"], dtype=float))

    monkeypatch.setattr(submission, "Bench", Bench)
    arguments = copy.deepcopy(content), "x.json", LIST, RULE, np.random.default_rng(0)
    if lines is None:
        with pytest.raises(ConfigError, match="more than chance"):
            submission.repeat(*arguments)
    else:
        submission.repeat(*arguments)
        assert lines in capsys.readouterr().out
    assert len(trained) == 1  # a tenth of four, rounded up
