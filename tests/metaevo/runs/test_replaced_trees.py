"""Trees of a run: replaced while somebody reads them, and metadata that names other files."""

import sys

import numpy as np
import pytest

from metaevo.parts import ValueLossNetwork, saved
from metaevo.parts.part import Parts
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory


def test_a_part_is_replaced_atomically(tmp_path):
    """Read before every change of the file system: the old one, then the new one."""
    run, found, watched = RunDirectory(tmp_path), [], [True]
    parts = Parts.single(ValueLossNetwork(hidden_sizes=(2,)), "value_loss")
    shapes = [{"bias": np.zeros(2, np.float32), "weights": np.zeros((1, 2), np.float32)}]

    def write(generation):
        saved.save(run, parts, shapes, generation)

    def watch(event, arguments):
        changes = ("os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.mkdir")
        if watched and event in changes and str(arguments[0]).startswith(str(tmp_path)):
            kept = watched.pop()
            found.append(checkpoint.load_tree(run.meta_params)[1]["generation"])
            watched.append(kept)

    write(0)
    sys.addaudithook(watch)  # for the rest of this process
    try:
        for generation in (1, 2):
            write(generation)
    finally:
        watched.clear()
    assert found == sorted(found)
    assert set(found) == {0, 1, 2}
    assert checkpoint.load_tree(run.meta_params)[1]["generation"] == 2
    assert len(list(run.meta_params.iterdir())) == 2


def test_a_reader_that_is_overtaken_reads_the_new_tree(tmp_path, monkeypatch):
    path, undamaged = tmp_path / "tree", checkpoint._undamaged
    checkpoint.save_tree(path, {"a": np.zeros(2)}, {"number": 0})

    def replace_after_reading(metadata):
        monkeypatch.setattr(checkpoint, "_undamaged", undamaged)
        checkpoint.save_tree(path, {"a": np.ones(2)}, {"number": 1})
        return undamaged(metadata)

    monkeypatch.setattr(checkpoint, "_undamaged", replace_after_reading)
    tree, metadata = checkpoint.load_tree(path)
    assert metadata == {"number": 1}
    np.testing.assert_array_equal(tree["a"], np.ones(2))


@pytest.mark.parametrize("name", ["../state.npz", "/etc/passwd", "metadata.json", 1])
def test_metadata_can_only_name_state_files(tmp_path, name):
    path = tmp_path / "tree"
    checkpoint.save_tree(path, {"a": np.zeros(2)})
    content = checkpoint._undamaged((path / "metadata.json").read_bytes())
    (path / "metadata.json").write_bytes(checkpoint._sealed({**content, "state": name}))
    with pytest.raises(checkpoint.CheckpointError, match="names a state"):
        checkpoint.load_tree(path)
