import json

import pytest

from tests.golden import learners

RECORDED = json.loads(learners.FILE.read_text())
CASES = learners.cases()
FIRST = {min((name for name in CASES if name.startswith(kind)), key=len)
         for kind in ("ppo", "dqn", "pqn", "q-learning", "lpg")}  # fmt: skip
"""Cases of `make test-all`, one for each learner; all others are in `make test-slow`."""


@pytest.mark.long
def test_every_case_is_recorded():
    assert list(RECORDED["cases"]) == list(CASES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in FIRST else pytest.mark.slow)
        for name in CASES
    ],
)
def test_a_training_has_the_recorded_results(name):
    recorded, measured = RECORDED["cases"][name], learners.measure(CASES[name])
    if RECORDED["platform"] == learners.platform():
        assert measured["digest"] == recorded["digest"]
    assert measured["means"] == pytest.approx(recorded["means"], rel=1e-2, abs=1e-3, nan_ok=True)
