import re
import shutil
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.runs.checkpoint import save
from metaevo.runs.resume import newest
from tests.faults.damage import contents

METADATA = {"run_id": "mine", "seconds": 12.5}


def tree(scale):
    return {"mean": jnp.linspace(-1.0, 1.0, 200) * scale, "key": jax.random.key(int(scale))}


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Checkpoints 1 and 2 of a run; an unpickled bomb would leave a file next to them."""
    monkeypatch.chdir(tmp_path)
    for index in (1, 2):
        save(tmp_path / "run", index, tree(index), metadata=METADATA)
    return tmp_path / "run"


def restored(folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, metadata = newest(folder, tree(1), expected={"run_id": "mine"})
    index = metadata["index"]
    assert metadata == {"index": index, **METADATA}
    np.testing.assert_array_equal(found["mean"], tree(index)["mean"])
    assert found["key"] == tree(index)["key"]
    return index, [str(each.message) for each in caught]


def assert_detected(folder, case):
    index, (warning,) = restored(folder)
    assert index == 1, case
    assert re.search(r"000002\.npz is not usable: ", warning)
    assert "\n" not in warning


def test_a_damaged_checkpoint_is_skipped_and_overwritten(saved):
    path = saved / "000002.npz"
    for case, damaged in contents(path.read_bytes()):
        path.write_bytes(damaged)
        assert_detected(saved, case)
    save(saved, 2, tree(2), metadata=METADATA)
    assert restored(saved) == (2, [])
    path.write_bytes(b"")
    save(saved, 1, tree(1), metadata=METADATA)  # removes later ones, whatever they hold
    assert [each.name for each in saved.iterdir()] == ["000001.npz"]
    assert not Path("exploded").exists()


def test_a_foreign_checkpoint_is_detected(saved):
    other = saved.parent / "other"
    save(other, 2, tree(2), metadata=METADATA | {"run_id": "other"})
    for origin in (saved / "000001.npz", other / "000002.npz"):
        shutil.copy(origin, saved / "000002.npz")
        assert_detected(saved, origin)
