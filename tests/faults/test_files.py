"""Files that someone else made up, in the place of those of a run: read back as they were written,
or refused in one line, and nothing in them is executed."""

import io
import json
import pickle
import re
import shutil
import warnings
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metaevo.config import ConfigError
from metaevo.config.files import read_json
from metaevo.parts import saved
from metaevo.runs import checkpoint
from metaevo.runs.checkpoint import CheckpointError, load_tree, save, save_tree
from metaevo.runs.resume import newest
from metaevo.runs.run_directory import RunDirectory
from tests.faults.damage import Bomb, contents
from tests.faults.fuzzing import values

LEAVES = {"bias": np.zeros(4, np.float32), "weights": np.ones((1, 4), np.float32)}
JSON = values.map(lambda value: json.loads(json.dumps(value, default=str)))


def loaded(folder):
    """Return what `metaevo.load` finds in a folder with a forged file; None if it refuses."""
    try:
        return saved.load(folder)[1]
    except ConfigError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    return None


# A forger computes digests, too.


def described(name, own=None):
    return {"parts": {"value_loss": {"part": name, "settings": own or {"hidden_sizes": [4]}}}}


def forge(path, change=None, members=None, text=None):
    """Write a saved part with other metadata or another archive, and the right digest."""
    path.parent.mkdir(exist_ok=True)
    save_tree(path, [LEAVES], described("value_loss"))
    with np.load(path) as file:
        content = json.loads(str(file["metadata"]))
    if members is None:
        members = [(member(name), npy(array), STORED) for name, array in LEAVES.items()]
    text = json.dumps(content | (change or {})) if text is None else text
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, each, compression in members:
            file.writestr(name, each, compression)
        file.writestr("metadata.npy", npy(np.array(text)))
    path.write_bytes(checkpoint.seal(archive))


def member(name):
    return f"leaf:[0][{name!r}].npy"


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header(shape, dtype="<f4"):
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


BIAS = member("bias")
STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
ARCHIVES = {
    "a petabyte announced": [(BIAS, header((10**15,)), STORED)],
    "a negative size": [(BIAS, header((-4,)), STORED)],
    "sizes whose product overflows": [(BIAS, header((2**40, 2**40)), STORED)],
    "a bomb of a gigabyte": [(BIAS, header((2**28,)) + bytes(2**26), DEFLATED)],
    "objects": [(BIAS, header((1,), "|O") + pickle.dumps([None]), STORED)],
    "a path": [("../../leaf.npy", header((4,)) + bytes(16), STORED)],
    "no array": [(BIAS, b"import os", STORED)],
    "code in the head": [(BIAS, header("__import__('os').system('true')"), STORED)],
    "the same twice": [(BIAS, header((4,)) + bytes(16), STORED)] * 2,
    "nothing": [],
    "all right, but compressed": [(member(x), npy(y), DEFLATED) for x, y in LEAVES.items()],
}


@pytest.fixture
def path(tmp_path):
    return RunDirectory(tmp_path).meta_params


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", ARCHIVES)
def test_a_forged_archive_is_refused(case, path):
    forge(path)
    np.testing.assert_array_equal(load_tree(path)[0][0]["weights"], LEAVES["weights"])
    forge(path, members=ARCHIVES[case])
    with pytest.raises(CheckpointError, match="is not usable"):
        load_tree(path)
    assert loaded(path.parent) is None


def test_a_pickle_in_the_place_of_an_archive_is_not_opened(path):
    bomb = np.array([Bomb(path.parent / "exploded")])
    forge(path, members=[(member(name), npy(bomb), STORED) for name in LEAVES])
    assert loaded(path.parent) is None
    path.write_bytes(checkpoint.seal(io.BytesIO(pickle.dumps(bomb[0]))))
    assert loaded(path.parent) is None
    assert not (path.parent / "exploded").exists()


@pytest.mark.parametrize("levels", [90, 500, 900, 100_000])
@pytest.mark.parametrize("where", ["metadata", "structure", "settings"])
def test_deeply_nested_metadata_is_refused(where, levels, path):
    change = {where: "HERE"}
    if where == "settings":
        change = {"metadata": described("value_loss", "HERE")}
    forge(path, change)
    with np.load(path) as file:
        text = str(file["metadata"])
    assert "HERE" in text
    forge(path, text=text.replace('"HERE"', "[" * levels + "]" * levels))
    assert loaded(path.parent) is None


@settings(max_examples=30, database=None, suppress_health_check=list(HealthCheck))
@given(change=st.dictionaries(st.sampled_from(["metadata", "structure", "leaves"]), JSON))
def test_forged_metadata_is_refused_or_fits(change, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "forged"
    forge(RunDirectory(folder).meta_params, change)
    found = loaded(folder)
    assert found is None or isinstance(found, list)


@pytest.mark.parametrize("name", ["../../value_loss", "os", "", "part", "registry", 0])
def test_a_part_of_another_name_is_not_imported(name, path):
    forge(path, {"metadata": described(name)})
    with pytest.raises(ConfigError, match=re.escape(repr(name))):
        saved.load(path.parent)


@pytest.mark.parametrize("levels", [201, 100_000])
def test_deep_json_is_refused_by_all_readers(tmp_path, levels):
    run = RunDirectory(tmp_path)
    deep = '{"a": ' * levels + "1" + "}" * levels
    for path, reader in (
        (run.metrics_path, lambda: run.read_metrics("generation")),
        (run.evaluation_path, lambda: read_json(run.evaluation_path)),
    ):
        path.write_text(deep + "\n")
        with pytest.raises(ConfigError, match=path.name):
            reader()


METADATA = {"run_id": "mine", "seconds": 12.5}


def tree(scale):
    return {"mean": jnp.linspace(-1.0, 1.0, 200) * scale, "key": jax.random.key(int(scale))}


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
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


def test_a_damaged_checkpoint_is_skipped_and_overwritten(checkpoints):
    path = checkpoints / "000002.npz"
    for case, damaged in contents(path.read_bytes()):
        path.write_bytes(damaged)
        assert_detected(checkpoints, case)
    save(checkpoints, 2, tree(2), metadata=METADATA)
    assert restored(checkpoints) == (2, [])
    path.write_bytes(b"")
    save(checkpoints, 1, tree(1), metadata=METADATA)  # removes later ones, whatever they hold
    assert [each.name for each in checkpoints.iterdir()] == ["000001.npz"]
    assert not Path("exploded").exists()


def test_a_foreign_checkpoint_is_detected(checkpoints):
    other = checkpoints.parent / "other"
    save(other, 2, tree(2), metadata=METADATA | {"run_id": "other"})
    for origin in (checkpoints / "000001.npz", other / "000002.npz"):
        shutil.copy(origin, checkpoints / "000002.npz")
        assert_detected(checkpoints, origin)
