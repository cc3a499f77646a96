"""Untrusted run directories: no access outside of them, and no waiting at pipes."""

import os
import socket
import sys

import numpy as np
import pytest

from metaevo.commands import sync
from metaevo.commands.train import main as train
from metaevo.comparison.compare_runs.run_directories import read
from metaevo.components import discovery, parts, value_loss
from metaevo.config import ConfigError
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking import mirror
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.remote import files_in
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


def mirror_of(run):
    return mirror.Mirror(run, Destination("wandb", "offline", "p"))


READERS = {
    "config.yaml": lambda run: RunDirectory.open(run.path).read_config(),
    "metrics.jsonl": lambda run: run.read_metrics("generation"),
    "evaluation.json": lambda run: read(run.path),
    ".lock": lambda run: read(run.path),
    "tracked.jsonl": lambda run: mirror_of(run).catch_up(),
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


CHILD = {"child": "a", "job_type": "seed", "config": {}, "records": []}
WRITERS = {
    ".lock": lambda run: None,
    "metrics.jsonl": lambda run: run.append_metrics(
        {"kind": "update", "update": 1, "frames": 16, "seconds": 2.0}
    ),
    "tracked.jsonl": lambda run: run.append_child(CHILD),
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


# --- What is sent, and where to ------------------------------------------------------------------


class Service:
    """Takes everything."""

    id = "id"

    def __init__(self):
        self.taken = []

    def log(self, records):
        pass

    def log_artifact(self, path):
        self.taken += [each.read_text() for each in files_in(path)]

    def finish(self, *, completed):
        pass


@pytest.fixture
def service(monkeypatch):
    found = Service()
    monkeypatch.setattr(mirror, "open_remote", lambda *_: found)
    return found


def synced(run, *arguments):
    """The exit code of sync.py."""
    try:
        return sync.main([str(run.path), *arguments], description=None)
    except SystemExit as error:
        return error.code


@pytest.mark.parametrize(
    "name", ["evaluation.json", "figures/a.png", "meta_params/more", "figures"]
)
@pytest.mark.parametrize("is_folder", [False, True])
def test_nothing_outside_of_a_run_is_sent(run, outside, service, capsys, name, is_folder):
    (outside.parent / "folder").mkdir()
    (outside.parent / "folder" / "b").write_text("precious")
    path = run.path / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside.parent / "folder" if is_folder else outside)
    assert synced(run, "--mlflow", "http://localhost:1") == 2
    assert service.taken == []
    assert one_line(capsys.readouterr().err).startswith("error: ")


def test_files_inside_a_run_are_sent(run, service):
    run.figures.mkdir()
    (run.figures / "a.png").write_text("picture")
    run.tracked_path.write_text('{"artifact": "../secret"}\n')  # 7ff1657 announced what to send
    assert synced(run, "--mlflow", "http://localhost:1") == 0
    assert set(service.taken) == {"picture"}


SERVERS = [
    ({"wandb": "online"}, "wandb (online)"),
    ({"mlflow": "http://evil.example"}, "mlflow (http://evil.example)"),
    ({"mlflow": "sqlite:////var/other.db"}, "mlflow (sqlite:////var/other.db)"),
]


@pytest.mark.parametrize(("settings", "shown"), SERVERS)
def test_a_server_that_only_the_directory_names_is_confirmed(
    tmp_path, service, capsys, settings, shown
):
    run = make_run(tmp_path / "run", wandb_project="theirs", **settings)
    run.evaluation_path.write_text("numbers")
    assert synced(run) == 2
    text = one_line(capsys.readouterr().err, shown, "'theirs'", "--confirm-destination")
    assert text.startswith("error: ")
    assert service.taken == []
    assert synced(run, "--confirm-destination") == 0
    assert service.taken == ["numbers"]


@pytest.mark.parametrize("settings", [{"wandb": "offline"}, {"mlflow": "local"}])
def test_local_places_need_no_confirmation(tmp_path, service, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    assert synced(make_run(tmp_path / "run", **settings)) == 0


@pytest.mark.parametrize(("settings", "shown"), SERVERS)
def test_a_resumed_run_does_not_choose_its_server(tmp_path, capsys, monkeypatch, settings, shown):
    def reached(*_, **__):
        raise ConfigError("reached")

    monkeypatch.setattr("metaevo.commands.train.run_training", reached)
    run = make_run(tmp_path / "run", **settings)
    (name,) = settings
    arguments = ["--resume", "--run-dir", str(run.path)]
    named = [f"--{name}", settings[name]], [f"--run.{name}", settings[name]]
    for more in ([], ["--confirm-destination"], *named):
        with pytest.raises(SystemExit) as info:
            train([*arguments, *more], description="")
        assert info.value.code == 2
        error = one_line(capsys.readouterr().err)
        if more:
            assert error == "error: reached\n"
        else:
            assert shown in error
            assert "--confirm-destination" in error


def test_wandb_takes_no_settings_from_a_run(run):
    (run.path / "wandb").mkdir()
    (run.path / "wandb" / "settings").write_text("[default]\nbase_url = http://evil.example\n")
    with pytest.raises(Exception, match="wandb/settings"):
        mirror_of(run).finish()


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
