"""Damaged checkpoints are detected, and the previous one is used."""

import re
import shutil
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.runs.checkpoint import CheckpointError, load_tree, restore, save, save_tree
from tests.faults.damage import FILES, REGIONS, STRUCTURAL, contents

METADATA = {"run_id": "mine", "seconds": 12.5}


def tree(scale):
    return {"mean": jnp.linspace(-1.0, 1.0, 200) * scale, "key": jax.random.key(int(scale))}


def same(one, other):
    def raw(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes()

    return [*map(raw, jax.tree.leaves(one))] == [*map(raw, jax.tree.leaves(other))]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Checkpoints 1 and 2 of a run; an unpickled bomb would leave a file beside them."""
    monkeypatch.chdir(tmp_path)
    for index in (1, 2):
        save(tmp_path / "run", index, tree(index), metadata=METADATA)
    return tmp_path / "run"


def restored(directory):
    """The index that was restored, the tree, and what was said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = restore(directory, tree(1), expected={"run_id": "mine"})
    assert found.metadata == METADATA
    return found.index, found.tree, [str(each.message) for each in caught]


def is_detected(directory):
    index, found, said = restored(directory)
    if index == 2:  # white space between the words of metadata.json
        assert same(found, tree(2))
        return False
    assert index == 1
    assert same(found, tree(1))
    assert len(said) == 1
    assert re.search("000002 is not usable: ", said[0])
    assert "\n" not in said[0]
    return True


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_detected(saved, name):
    path = saved / "000002" / name
    content = path.read_bytes()
    harmless = []
    for case, damaged in contents(content):
        path.write_bytes(damaged)
        if not is_detected(saved):
            harmless.append(case)
    assert len(harmless) == 0 if name == "state.npz" else len(harmless) < REGIONS // 4
    path.write_bytes(content)
    assert restored(saved)[0] == 2
    assert not Path("exploded").exists()


@pytest.mark.parametrize("case", STRUCTURAL)
def test_damaged_checkpoints_are_skipped_and_overwritten(saved, case):
    STRUCTURAL[case](saved / "000002")
    assert is_detected(saved)
    save(saved, 2, tree(2), metadata=METADATA)
    index, found, said = restored(saved)
    assert (index, same(found, tree(2)), said) == (2, True, [])
    STRUCTURAL[case](saved / "000002")
    save(saved, 1, tree(1), metadata=METADATA)  # removes what comes later, whatever it is
    assert sorted(each.name for each in saved.iterdir()) == ["000001"]
    assert not Path("exploded").exists()


@pytest.mark.parametrize("name", [*FILES, ""], ids=[*FILES, "both"])
@pytest.mark.parametrize("source", ["000001", "other run", "other config"])
def test_a_swapped_file_is_detected(saved, source, name):
    if source == "other run":
        save(saved.parent / "other", 2, tree(5), metadata=METADATA | {"run_id": "other"})
    elif source == "other config":
        save(saved.parent / "other", 2, {"mean": jnp.ones(3)}, metadata=METADATA)
    origin = saved / "000001" if source == "000001" else saved.parent / "other" / "000002"
    for each in [name] if name else FILES:
        shutil.copy(origin / each, saved / "000002" / each)
    assert is_detected(saved)


@pytest.mark.parametrize("case", STRUCTURAL)
def test_damaged_trees_are_refused_and_overwritten(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    save_tree(tmp_path / "tree", [np.ones(3)])
    STRUCTURAL[case](tmp_path / "tree")
    with pytest.raises(CheckpointError, match="is not usable: "):
        load_tree(tmp_path / "tree")
    save_tree(tmp_path / "tree", [np.ones(3)])
    assert same(load_tree(tmp_path / "tree")[0], [np.ones(3)])
    assert [each.name for each in tmp_path.iterdir()] == ["tree"]
