"""Files that someone else made up, in the place of those of a run: read back as they were written,
or refused in one line, and nothing in them is executed."""

import hashlib
import io
import json
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metaevo.config import ConfigError, dump_yaml
from metaevo.config.files import read_json
from metaevo.parts import resolve
from metaevo.runs import checkpoint
from metaevo.runs.checkpoint import CheckpointError, load_tree, save_tree
from metaevo.runs.run_directory import RunDirectory
from tests.faults.fuzzing import values

META_PARAMS = [{"bias": np.zeros(4, np.float32), "weights": np.ones((1, 4), np.float32)}]
JSON = values.map(lambda value: json.loads(json.dumps(value, default=str)))


def one_line(error):
    assert len(str(error).splitlines()) == 1
    return str(error)


def loaded(path):
    """What `metaevo.load` finds, None if it refuses."""
    try:
        return resolve.load(path)[1]
    except ConfigError as error:
        return one_line(error) and None


# A forger computes digests, too.


def described(name, settings=None):
    return {"part": name, "settings": settings or {"hidden_sizes": [4]}}


def forge(folder, change=None, members=None, state=None):
    """A tree with other metadata, or another archive, and right digests."""
    shutil.rmtree(folder, ignore_errors=True)
    save_tree(folder, META_PARAMS, {"parts": {"value_loss": described("value_loss")}})
    if members is not None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content, compression in members:
                archive.writestr(name, content, compression)
        state = buffer.getvalue()
    if state is not None:
        (folder / "state.npz").write_bytes(state)
    content = json.loads((folder / "metadata.json").read_bytes())
    del content["sha256_of_metadata"]
    content["sha256"] = hashlib.sha256((folder / "state.npz").read_bytes()).hexdigest()
    content |= change or {}
    content["sha256_of_metadata"] = checkpoint._digest(content)
    (folder / "metadata.json").write_text(json.dumps(content))


def header(shape, dtype="<f4"):
    """The head of a .npy file."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


BIAS = "leaf:[0]['bias'].npy"
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
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", ARCHIVES)
def test_a_forged_archive_is_refused(case, tmp_path):
    forge(tmp_path / "meta_params", members=ARCHIVES[case])
    with pytest.raises(CheckpointError, match="is not usable"):
        load_tree(tmp_path / "meta_params")
    assert loaded(tmp_path) is None


def test_a_compressed_archive_is_refused_even_if_all_else_is_right(tmp_path):
    folder = tmp_path / "meta_params"
    forge(folder)
    with zipfile.ZipFile(folder / "state.npz") as archive:
        content = [(name, archive.read(name)) for name in archive.namelist()]
    forge(folder, members=[(*each, STORED) for each in content])
    load_tree(folder)
    forge(folder, members=[(*each, DEFLATED) for each in content])
    with pytest.raises(CheckpointError, match="is compressed"):
        load_tree(folder)


def test_a_pickle_in_the_place_of_an_archive_is_not_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "exploded",)

    folder = tmp_path / "meta_params"
    forge(folder, state=pickle.dumps(Bomb()))
    assert loaded(tmp_path) is None
    (folder / "metadata.json").write_bytes(pickle.dumps(Bomb()))
    assert loaded(tmp_path) is None
    assert not (tmp_path / "exploded").exists()


def nested(levels, inside=1):
    for _ in range(levels):
        inside = [inside]
    return inside


@pytest.mark.parametrize("levels", [90, 500, 900, 100_000])
@pytest.mark.parametrize("where", ["metadata", "structure", "config"])
def test_deeply_nested_metadata_is_refused(where, levels, tmp_path):
    forge(tmp_path / "meta_params")
    path = tmp_path / "meta_params" / "metadata.json"
    content = json.loads(path.read_bytes())
    deep = "[" * levels + "]" * levels
    content["metadata" if where == "config" else where] = "HERE"
    text = (
        f'{{"parts": {{"value_loss": {{"part": "value_loss", "settings": {deep}}}}}}}'
        if where == "config"
        else deep
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_digest", lambda _: content["sha256_of_metadata"])
        path.write_text(json.dumps(content).replace('"HERE"', text))
        assert loaded(tmp_path) is None


@settings(max_examples=30, database=None, suppress_health_check=list(HealthCheck))
@given(change=st.dictionaries(st.sampled_from(["metadata", "structure", "leaves"]), JSON))
def test_forged_metadata_is_refused_or_fits(change, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "forged"
    shutil.rmtree(folder, ignore_errors=True)
    forge(folder / "meta_params", change)
    found = loaded(folder)
    assert found is None or isinstance(found, list)


@pytest.mark.parametrize("name", ["../../value_loss", "os", "", "part", "registry", 0])
def test_a_part_of_another_name_is_not_imported(name, tmp_path):
    forge(tmp_path / "meta_params", {"metadata": {"parts": {"value_loss": described(name)}}})
    with pytest.raises(ConfigError, match=re.escape(repr(name))):
        resolve.load(tmp_path)


# --- Run directories as the comparison finds them ------------------------------------------------


def make_run(path, changes=()):
    """A run directory, without asking git for its commit."""
    run = RunDirectory.create(path, "")
    config = {"seeds": 2, "train": {"total_timesteps": 40}, "run": {"seed": 1}, **dict(changes)}
    text = dump_yaml({"config": config, "resolved": {}, "environment": {}})
    run.config_path.write_text(text, encoding="utf-8")
    return run


@pytest.mark.parametrize("levels", [201, 100_000])
def test_deep_json_is_refused_by_all_readers(tmp_path, levels):
    run = make_run(tmp_path / "run")
    deep = '{"a": ' * levels + "1" + "}" * levels
    for path, reader in (
        (run.metrics_path, lambda: run.read_metrics("generation")),
        (run.evaluation_path, lambda: read_json(run.evaluation_path)),
    ):
        path.write_text(deep + "\n")
        with pytest.raises(ConfigError, match=path.name):
            reader()
