"""Runs resumed in a directory with many kinds of damage."""

import json
import shutil

import pytest

from tests.faults.damage import STRUCTURAL, flipped
from tests.faults.works import WORKS

pytestmark = pytest.mark.faults


def checkpoints(run_dir):
    return sorted((run_dir / "checkpoints").glob("[0-9]*"))


def copy_of(run_dir, place):
    copy = shutil.copytree(run_dir, place / "run")
    (copy / "report.html").unlink()
    return copy


def cut_off(path):
    """What a power failure leaves: the beginning of a line, and zeros where data should be."""
    with path.open("ab") as file:
        file.write(b'{"kind": "gener' + bytes(5000))


@pytest.mark.parametrize("name", ["short", "train"])
def test_a_run_resumes_from_the_last_valid_checkpoint(name, tmp_path, cache, undisturbed):
    other = undisturbed("train" if name == "short" else "short")
    run_dir, expected = copy_of(undisturbed(name), tmp_path), WORKS[name].result(undisturbed(name))
    found = checkpoints(run_dir)
    assert len(found) == 12
    for path, damage in zip(reversed(found), STRUCTURAL.values(), strict=False):
        damage(path)
    *_, flip = found[: -len(STRUCTURAL)]
    content = (flip / "state.npz").read_bytes()
    (flip / "state.npz").write_bytes(flipped(content, 33, 0x10))
    shutil.copytree(checkpoints(other)[-1], run_dir / "checkpoints" / "999999")
    shutil.copytree(found[0], run_dir / "checkpoints" / "000001", dirs_exist_ok=True)
    cut_off(run_dir / "metrics.jsonl")
    error = WORKS[name].run(run_dir, cache)
    assert error.count(" is not usable: ") == len(STRUCTURAL) + 1
    assert WORKS[name].result(run_dir) == expected
    assert not (run_dir / "exploded").exists()

    (run_dir / "report.html").unlink()
    for number, path in enumerate(checkpoints(run_dir)):
        list(STRUCTURAL.values())[number % len(STRUCTURAL)](path)
    error = WORKS[name].run(run_dir, cache, code=2)
    last = error.strip().splitlines()[-1]
    count = len(checkpoints(run_dir))
    assert last == f"error: none of the {count} checkpoints in {run_dir / 'checkpoints'} is usable"
    assert "Traceback" not in error


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
