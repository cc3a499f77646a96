"""A run that is killed and resumed equals an undisturbed run."""

import pytest

from tests.faults.kills import kill_and_compare
from tests.faults.works import WORKS, count_records, wait_for

pytestmark = pytest.mark.faults


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "kills"), [("evolution", 100), ("sweep", 20), ("train", 20)])
def test_a_run_survives_any_number_of_kills(name, kills, tmp_path):
    """`python -m tests.faults.kills NAME` is the same with another seed, and writes the counts."""
    counts = kill_and_compare(WORKS[name], tmp_path, kills=kills, seed=1)
    assert counts["kills"] > kills // 2
    print(counts)


@pytest.mark.parametrize("name", ["shaping", "cheap_talk", "programs"])
def test_other_evolutions_resume_after_a_kill(name, undisturbed, cache, tmp_path):
    """In the middle."""
    work, run = WORKS[name], tmp_path / "run"
    process = work.start(run, cache)
    wait_for(lambda: count_records(run) > work.total // 2, process)
    process.kill()
    process.ended()
    assert process.returncode == -9
    assert work.total // 2 < count_records(run) < work.total
    work.run(run, cache)
    assert work.result(run) == work.result(undisturbed(name))
