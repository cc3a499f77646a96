import subprocess
import sys
import time
import warnings
from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from metaevo.runs import checkpoint
from metaevo.runs.checkpoint import CheckpointError, history, load_tree, record, save, save_tree
from metaevo.runs.resume import newest


@flax.struct.dataclass
class State:
    mean: Any
    key: Any


class Pair(NamedTuple):
    first: Any
    second: Any


def make_tree():
    return {
        "strategy": State(mean=jnp.arange(3.0), key=jax.random.key(7)),
        "keys": jax.random.split(jax.random.key(1, impl="rbg"), 2),
        "pair": Pair(np.int64(5), [jnp.bfloat16(1.5), (), None]),
        "file": np.array([-0.0, np.nan, np.inf]),
        "count": 3,
    }


def same_bits(one, other):
    def raw(leaf):
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return str(leaf.dtype), np.asarray(jax.random.key_data(leaf)).tobytes()
        array = np.asarray(leaf)
        return array.dtype, array.shape, array.tobytes()

    leaves, structure = jax.tree.flatten(one)
    others, other_structure = jax.tree.flatten(other)
    return structure == other_structure and list(map(raw, leaves)) == list(map(raw, others))


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("abstract", [False, True])
def test_a_tree_comes_back_bit_for_bit(tmp_path, abstract):
    tree = make_tree()
    save(tmp_path, 12, tree, metadata={"frames": 99, 1: (2,)})
    tree["count"] = np.asarray(3)
    template = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if abstract else leaf, tree
    )
    found, metadata = newest(tmp_path, template, expected={"frames": 99, "1": [2]})
    assert metadata == {"index": 12, "frames": 99, "1": [2]}
    assert same_bits(found, tree)
    keys = found["strategy"].key, tree["strategy"].key
    assert jax.random.uniform(keys[0]) == jax.random.uniform(keys[1])


arrays = hnp.arrays(
    st.sampled_from(["f4", "f8", "f2", "i4", "u1", "?", "c8", ">f4"]), hnp.array_shapes(min_dims=0)
)
trees = st.recursive(
    arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=25, deadline=None)
@given(tree=trees)
def test_any_tree_comes_back(tmp_path_factory, tree):
    directory = tmp_path_factory.mktemp("checkpoint")
    save(directory, 0, tree)
    assert same_bits(newest(directory, tree)[0], tree)
    save_tree(directory / "tree.npz", tree, {"a": 1})
    loaded, metadata = load_tree(directory / "tree.npz")
    assert same_bits(loaded, tree)
    assert metadata == {"a": 1}


def test_saving_removes_other_checkpoints(tmp_path):
    with pytest.raises(CheckpointError, match="none of the 0 checkpoints"):
        newest(tmp_path / "none", jnp.ones(2))
    for index in (1, 10, 20, 30):
        save(tmp_path, index, jnp.ones(2) * index)
    assert names(tmp_path) == ["000010.npz", "000020.npz", "000030.npz"]
    assert newest(tmp_path, jnp.ones(2))[1] == {"index": 30}
    for value in (0, 1):
        save(tmp_path, 25, np.full(2, value), keep=1)
    assert names(tmp_path) == ["000025.npz"]
    np.testing.assert_array_equal(newest(tmp_path, np.zeros(2, int))[0], np.ones(2))


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ({"a": jnp.ones(3)}, r"\['a'\] is float32\[2\], not float32\[3\]"),
        ({"a": jnp.ones(2, int)}, r"\['a'\] is float32\[2\], not int32\[2\]"),
        ({"b": jnp.ones(2)}, "other leaves"),
        ({"a": jnp.ones(2), "b": jnp.ones(2)}, r"other leaves, such as \['b'\]"),
        ({}, r"other leaves, such as \['a'\]"),
        ([jnp.ones(2)], "other leaves"),
        ({"a": jax.random.key(0)}, r"not key<fry>\[\]"),
        ({"a": jax.random.key(0, impl="rbg")}, r"not key<rbg>\[\]"),
    ],
)
def test_another_structure_is_refused(tmp_path, template, reason):
    save(tmp_path, 1, {"a": jnp.ones(2)})
    with (
        pytest.warns(UserWarning, match=reason),
        pytest.raises(CheckpointError, match=r"none of the 1 checkpoints in .* is usable"),
    ):
        newest(tmp_path, template)


@pytest.mark.parametrize("leaf", ["text", object(), np.array([None]), np.array(["a"])])
def test_only_arrays_of_numbers_are_saved(tmp_path, leaf):
    with pytest.raises(TypeError, match=r"\['a'\] is no array of numbers"):
        save_tree(tmp_path / "tree.npz", {"a": leaf})
    assert names(tmp_path) == []


@pytest.mark.parametrize("tree", [Pair(1, 2), State(1, 2), {1: np.ones(2)}, [None]])
def test_other_containers_need_a_template(tmp_path, tree):
    with pytest.raises(TypeError, match="a saved tree"):
        checkpoint.check_tree(tree)
    save_tree(tmp_path / "tree.npz", tree)
    assert same_bits(load_tree(tmp_path / "tree.npz", jax.tree.map(np.asarray, tree))[0], tree)
    with pytest.raises(CheckpointError, match="structure"):
        load_tree(tmp_path / "tree.npz")


def point(value):
    return {"a": np.full(3, value, np.float32), "b": [np.float32(value)]}


def test_points_are_read_back_in_order(tmp_path):
    assert history(tmp_path) is None
    for generation in (0, 5, 10):
        record(tmp_path, generation, point(generation))
    found = history(tmp_path)
    assert found.generations.tolist() == [0, 5, 10]
    np.testing.assert_array_equal(found.at(1)["a"], [5, 5, 5])
    assert found.at(2)["b"][0] == 10
    record(tmp_path, 8, point(-8))  # a resumed run repeats points
    assert history(tmp_path).generations.tolist() == [0, 5, 8]
    record(tmp_path, 0, point(1.0))  # a new run in the directory
    assert history(tmp_path).generations.tolist() == [0]


def test_a_history_keeps_few_points_and_no_large_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MOST", 8)
    for generation in range(30):
        record(tmp_path, generation, point(generation))
    found = history(tmp_path)
    assert len(found.generations) <= 9
    assert found.generations[[0, -1]].tolist() == [0, 29]
    np.testing.assert_array_equal(found.meta_params["a"][:, 0], found.generations)
    record(tmp_path / "large", 0, {"a": np.zeros(checkpoint.LARGEST + 1)})
    assert history(tmp_path / "large") is None


def test_a_process_killed_while_saving_leaves_a_usable_checkpoint(tmp_path):
    program = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from metaevo.runs.checkpoint import save\n"
        "index = 0\n"
        "while True:\n"
        "    index += 1; save(Path(sys.argv[1]), index, np.full(300_000, index), keep=2)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    try:
        while not list(tmp_path.glob("00000[3-9].npz")):
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree, metadata = newest(tmp_path, np.zeros(300_000, int))
    assert metadata["index"] >= 3
    assert (tree == metadata["index"]).all()
