import pytest

from tests.faults.kills import kill_and_compare
from tests.faults.works import WORKS

pytestmark = pytest.mark.faults


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("name", "kills"), [("evolution", 100), ("programs", 3), ("sweep", 20), ("train", 20)]
)
def test_a_run_survives_any_number_of_kills(name, kills, tmp_path):
    """`python -m tests.faults.kills NAME` is the same with another seed, and writes the counts."""
    counts = kill_and_compare(WORKS[name], tmp_path, kills=kills, seed=1)
    assert counts["kills"] > kills // 2
    print(counts)
