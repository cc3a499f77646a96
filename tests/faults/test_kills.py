import shutil

import pytest

from tests.faults.damage import contents
from tests.faults.kills import kill_and_compare
from tests.faults.works import WORKS, checkpoints_in

pytestmark = pytest.mark.faults


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("name", "kills"), [("evolution", 100), ("programs", 3), ("sweep", 20), ("train", 20)]
)
def test_a_run_survives_any_number_of_kills(name, kills, tmp_path):
    counts = kill_and_compare(WORKS[name], tmp_path, kills=kills, seed=1)
    assert counts["kills"] > kills // 2
    print(counts)


def damage_all(paths):
    for number, path in enumerate(paths):
        found = list(contents(path.read_bytes()))
        path.write_bytes(found[number * 2][1])


@pytest.mark.parametrize("name", ["short", "train"])
def test_a_run_resumes_from_the_last_valid_checkpoint(name, tmp_path, cache, undisturbed):
    other = undisturbed("train" if name == "short" else "short")
    run_dir = shutil.copytree(undisturbed(name), tmp_path / "run")
    expected = WORKS[name].result(run_dir)
    (run_dir / "report.html").unlink()
    found = checkpoints_in(run_dir)
    assert len(found) == 12
    damage_all(found[4:])
    shutil.copy(checkpoints_in(other)[-1], run_dir / "checkpoints" / "999999.npz")
    shutil.copy(found[0], run_dir / "checkpoints" / "000001.npz")
    with (run_dir / "metrics.jsonl").open("ab") as file:  # as a power failure leaves it
        file.write(b'{"kind": "gener' + bytes(5000))
    error = WORKS[name].run(run_dir, cache)
    assert error.count(" is not usable: ") == 8 + 1  # of another run
    assert WORKS[name].result(run_dir) == expected

    (run_dir / "report.html").unlink()
    found = checkpoints_in(run_dir)
    damage_all(found)
    error = WORKS[name].run(run_dir, cache, code=2)
    last, folder = error.strip().splitlines()[-1], run_dir / "checkpoints"
    assert last == f"error: none of the {len(found)} checkpoints in {folder} is usable"
    assert "Traceback" not in error
    assert not (run_dir / "exploded").exists()
