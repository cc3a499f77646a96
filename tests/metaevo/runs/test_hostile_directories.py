"""Untrusted run directories: no access outside of them, and no waiting at pipes."""

import os
import socket
import sys

import numpy as np
import pytest

from metaevo.comparison.compare_runs.run_directories import read
from metaevo.components import discovery, parts, value_loss
from metaevo.config import ConfigError
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.tuning.storage import JOURNAL, open_storage

pytestmark = pytest.mark.timeout(60)  # what waits at a pipe waits for ever


def make_run(path, **settings):
    run = RunDirectory.create(path, "")
    run.write_config({"seeds": 1, "run": {"seed": 0, **settings}}, {"run_id": "abc"})
    run.append_metrics(
        {"kind": "update", "update": 0, "frames": 8, "seconds": 1.0, "mean_return": 1.0}
    )
    return run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "secret"
    path.write_text("precious")
    return path


def one_line(error, *texts):
    text = str(error)
    assert len(text.splitlines()) == 1
    for each in texts:
        assert each in text
    return text


# --- Kinds of files ------------------------------------------------------------------------------


def make_socket(path, _):
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.getcwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            server.bind(path.name)
        finally:
            os.chdir(folder)


KINDS = {
    "a directory": lambda path, _: path.mkdir(),
    "a pipe": lambda path, _: os.mkfifo(path),
    "a socket": make_socket,
    "a symbolic link": lambda path, outside: path.symlink_to(outside),
}


READERS = {
    "config.yaml": lambda run: RunDirectory.open(run.path).read_config(),
    "metrics.jsonl": lambda run: run.read_metrics("generation"),
    "evaluation.json": lambda run: read(run.path),
    ".lock": lambda run: read(run.path),
    JOURNAL: lambda run: open_storage(run.path, None),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_only_regular_files_are_read(run, outside, name, kind):
    path = run.path / name
    path.unlink(missing_ok=True)
    KINDS[kind](path, outside)
    with pytest.raises(ConfigError) as info:
        READERS[name](run)
    one_line(info.value, name, "not a regular file")
    assert info.value.exit_code == 2
    assert outside.read_text() == "precious"


WRITERS = {
    ".lock": lambda run: None,
    "metrics.jsonl": lambda run: run.append_metrics(
        {"kind": "update", "update": 1, "frames": 16, "seconds": 2.0}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITERS)
def test_only_regular_files_are_written(run, outside, name, kind):
    path = run.path / name
    path.unlink(missing_ok=True)
    KINDS[kind](path, outside)
    with pytest.raises(ConfigError) as info, run.held("do something"):
        WRITERS[name](run)
    one_line(info.value, name)
    assert info.value.exit_code == 2
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("name", ["figures", "checkpoints", "losses/value_loss", "wandb"])
def test_nothing_is_written_through_a_linked_folder(run, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    path = run.path / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError) as info, run.held("do something"):
        pass
    one_line(info.value, name)


def test_a_link_that_wandb_makes_is_left_alone(run):
    (run.path / "wandb" / "offline-run-1").mkdir(parents=True)
    (run.path / "wandb" / "latest-run").symlink_to("offline-run-1")
    with run.held("do something"):
        pass


# --- What replaces what ---------------------------------------------------------------------------


def test_a_component_is_replaced_atomically(tmp_path):
    """Read before every change of the file system: the old one, then the new one."""
    run, found, watched = RunDirectory(tmp_path), [], [True]
    config = value_loss.Config(hidden_sizes=(2,))
    shapes = [{"bias": np.zeros(2, np.float32), "weights": np.zeros((1, 2), np.float32)}]

    def write(generation):
        discovery.save(run, parts.make("value_loss", config), shapes, generation)

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
