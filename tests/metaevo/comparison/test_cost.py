"""The cost of a rule, with a clock that only trainings move."""

import json

import pytest

from metaevo.comparison.generality import cost
from metaevo.comparison.generality.rules import rule_of
from metaevo.comparison.generality.tasks import benchmark


def test_both_rules_are_timed_in_turn_and_compilation_is_not(tmp_path, monkeypatch):
    trained, clock = [], [0.0]
    seconds = {"sgd": [100, 3, 3, 3, 6, 3, 3, 1.5], "adam": [50, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]}

    class Bench:
        def __init__(self, benchmark, task, rule):
            assert task == "grid"
            self.rule = rule.text

        def score(self, rate):
            trained.append(self.rule)
            clock[0] += seconds[self.rule].pop(0)

    monkeypatch.setattr(cost, "Bench", Bench)
    monkeypatch.setattr(cost.time, "process_time", lambda: clock[0])
    found = cost.measure_cost(benchmark(), "grid", rule_of("sgd"), tmp_path)
    assert found == {"task": "grid", "ratio": 2.0, "range": [1.0, 4.0]}
    assert trained == ["sgd", "adam"] * 8
    assert cost.measure_cost(benchmark(), "grid", rule_of("sgd"), tmp_path) == found  # kept
    with pytest.raises(IndexError):  # of another rule: measured
        cost.measure_cost(benchmark(), "grid", rule_of("adam"), tmp_path)
    assert json.loads((tmp_path / "cost.json").read_text())["ratio"] == 2.0
