"""Runs resumed in a directory with many kinds of damage."""

import json
import shutil

import pytest

from tests.faults.damage import contents
from tests.faults.works import WORKS, checkpoints_in

pytestmark = pytest.mark.faults


def copy_of(run_dir, place):
    copy = shutil.copytree(run_dir, place / "run")
    (copy / "report.html").unlink()
    return copy


def damage_all(paths):
    """Damage each file in another way."""
    for number, path in enumerate(paths):
        found = list(contents(path.read_bytes()))
        path.write_bytes(found[number * 2][1])


def cut_off(path):
    """What a power failure leaves: the beginning of a line, and zeros where data should be."""
    with path.open("ab") as file:
        file.write(b'{"kind": "gener' + bytes(5000))


@pytest.mark.parametrize("name", ["short", "train"])
def test_a_run_resumes_from_the_last_valid_checkpoint(name, tmp_path, cache, undisturbed):
    other = undisturbed("train" if name == "short" else "short")
    run_dir, expected = copy_of(undisturbed(name), tmp_path), WORKS[name].result(undisturbed(name))
    found = checkpoints_in(run_dir)
    assert len(found) == 12
    damage_all(found[4:])
    shutil.copy(checkpoints_in(other)[-1], run_dir / "checkpoints" / "999999.npz")
    shutil.copy(found[0], run_dir / "checkpoints" / "000001.npz")
    cut_off(run_dir / "metrics.jsonl")
    error = WORKS[name].run(run_dir, cache)
    foreign = name == "train"  # of another run; an evolution has no records before its index
    assert error.count(" is not usable: ") == 8 + foreign
    assert WORKS[name].result(run_dir) == expected

    (run_dir / "report.html").unlink()
    found = checkpoints_in(run_dir)
    damage_all(found)
    error = WORKS[name].run(run_dir, cache, code=2)
    last, folder = error.strip().splitlines()[-1], run_dir / "checkpoints"
    assert last == f"error: none of the {len(found)} checkpoints in {folder} is usable"
    assert "Traceback" not in error
    assert not (run_dir / "exploded").exists()


def test_a_sweep_resumes_with_a_torn_journal(tmp_path, cache, undisturbed):
    work, run_dir = WORKS["sweep"], copy_of(undisturbed("sweep"), tmp_path)
    expected = work.result(run_dir)
    journal, metrics = run_dir / "study.journal", run_dir / "metrics.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content[: len(content) * 2 // 3])
    known = {json.loads(line)["trial"] for line in metrics.read_bytes().splitlines()[:15]}
    metrics.write_bytes(b"\n".join(metrics.read_bytes().splitlines()[:15]) + b"\n")
    cut_off(metrics)
    work.run(run_dir, cache)
    assert work.result(run_dir) == expected
    assert len(known) == 15
    # In the middle it cannot be repaired, and is not.
    content = journal.read_bytes()
    half = len(content) // 2
    journal.write_bytes(content[:half] + b"\0\0\0\0\0" + content[half + 5 :])
    (run_dir / "report.html").unlink()
    error = work.run(run_dir, cache, code=2)
    assert error.startswith("error: ")
    assert "is not the journal of a study" in error
    assert error.count("\n") == 1
