"""Runs killed with SIGKILL end, once resumed, as if nothing had been."""

import pytest

from tests.faults.kills import kill_and_compare
from tests.faults.works import WORKS

pytestmark = pytest.mark.long


def test_an_evolution_survives_three_kills(tmp_path):
    counts = kill_and_compare(WORKS["short"], tmp_path, kills=3, seed=0)
    assert counts["kills"] == 3
    assert counts["phases"]["saving"] >= 1  # the first of them in the very first checkpoint


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "kills"), [("evolution", 100), ("sweep", 20), ("train", 20)])
def test_a_run_survives_any_number_of_kills(name, kills, tmp_path):
    """`python -m tests.faults.kills NAME` is the same with another seed, and writes the counts."""
    counts = kill_and_compare(WORKS[name], tmp_path, kills=kills, seed=1)
    assert counts["kills"] == kills
    print(counts)
