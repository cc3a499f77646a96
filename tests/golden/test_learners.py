"""Learners compute what they computed when `learners.json` was recorded."""

import json

import pytest

from tests.golden import learners

RECORDED = json.loads(learners.FILE.read_text())
CASES = learners.cases()
pytestmark = pytest.mark.long


def test_every_case_is_recorded():
    assert list(RECORDED["cases"]) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_training_has_the_recorded_results(name):
    recorded, measured = RECORDED["cases"][name], learners.measure(CASES[name])
    if RECORDED["platform"] == learners.platform():
        assert measured["digest"] == recorded["digest"]
    assert measured["means"] == pytest.approx(recorded["means"], rel=1e-2, abs=1e-3, nan_ok=True)
