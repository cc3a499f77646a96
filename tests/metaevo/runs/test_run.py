import errno
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.commands.run_options import parse_settings, run_parser
from metaevo.config import ConfigError, DiskError
from metaevo.config.files import write_atomic, write_json_atomic
from metaevo.runs.finding import run_path
from metaevo.runs.resume import forget_end
from metaevo.runs.run import HasRun, Kind, RecordConfig, open_run
from metaevo.runs.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "run", "experiment")


def generation(index, **more):
    return {"kind": "generation", "generation": index, "frames": 8, "seconds": 0.5, **more}


def test_names_are_unique_and_no_run_is_overwritten(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [RunDirectory.create(None, "evolve") for _ in range(3)]
    assert len({run.path for run in runs}) == 3
    assert all(run.path.parent == Path("runs/evolve") for run in runs)
    RunDirectory.create(run.path, "experiment")  # still without a config
    for path in (tmp_path / "none", run.path):
        with pytest.raises(ConfigError, match="holds no run"):
            RunDirectory.open(path)
    run.write_config({}, {})
    assert RunDirectory.open(run.path).metrics_path == run.path / "metrics.jsonl"
    with pytest.raises(ConfigError, match=r"already holds a run.*--resume.*resume=True"):
        RunDirectory.create(run.path, "experiment")


@pytest.mark.parametrize("name", ["file", "file/run", "bad\0name"])
def test_an_impossible_directory_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("runs").symlink_to("file")
    for path in (tmp_path / name, None):
        with pytest.raises(ConfigError, match=r"run directory .* cannot be written: "):
            RunDirectory.create(path, "experiment")


def test_a_second_process_is_refused_until_the_first_is_gone(run, monkeypatch):
    program = (
        "import sys; from pathlib import Path\n"
        "from metaevo.runs.run_directory import RunDirectory\n"
        "with RunDirectory(Path(sys.argv[1])).locked():\n"
        "    print('locked', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"locked\n"
            in_use = rf"in use by another run \(process {process.pid}"
            with pytest.raises(ConfigError, match=in_use), run.locked():
                pass
        finally:
            process.kill()
    own = f"process {os.getpid()}"
    run.config_path.touch()
    with run.locked(), pytest.raises(ConfigError, match=own):
        RunDirectory.create(run.path, "train")
    with RunDirectory(run.path).locked():
        pass
    refuse = mock.Mock(side_effect=OSError(errno.ENOSYS, "Function not implemented"))
    monkeypatch.setattr("fcntl.flock", refuse)  # some file systems have no locks
    with pytest.raises(ConfigError, match="lock cannot be written: Fun"), run.locked():
        pass


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskError),
        (OSError(errno.EFBIG, "File too large"), DiskError),
        (FileNotFoundError(errno.ENOENT, "No such file", "{run}/metrics.jsonl"), DiskError),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "{run}/checkpoints"), ConfigError),
        (FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere"), None),
        (OSError("odd"), None),
        (KeyError("a"), None),
    ],
)
def test_a_failing_disk_is_reported_with_a_remedy(run, error, raised):
    if where := getattr(error, "filename", None):
        error.filename = where.format(run=run.path)
    with pytest.raises(raised or type(error)) as caught, run.locked("go on later"):
        raise error
    if raised is None:
        assert caught.value is error
    else:
        where = error.filename or run.path
        assert str(caught.value) == f"{where} cannot be written: {error.strerror}; go on later"
        assert caught.value.exit_code == (74 if raised is DiskError else 2)
    with run.locked():  # it is free again
        pass


def test_leftovers_of_killed_writes_are_removed(run):
    run.figures.mkdir()
    left = [run.path / ".config.yaml.12.tmp", run.figures / ".scores.png.1234.tmp"]
    kept = [run.figures / "scores.png", run.figures / ".mine.tmp"]
    for path in left + kept:
        path.write_text("half")
    with run.locked():
        pass
    assert [path for path in left + kept if path.exists()] == kept


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json_atomic(path, {"a": np.float32(np.nan), "b": (1, 2)})
    assert json.loads(path.read_text()) == {"a": None, "b": [1, 2]}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            write_atomic(path, "new")
    assert json.loads(path.read_text()) == {"a": None, "b": [1, 2]}
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_the_config_comes_back_with_its_environment(run):
    config = {"task": {"env": "CartPole-v1", "rate": 1e-5, "clip": math.inf}, "words": ["1e-3"]}
    run.write_config(config, {"chunk": np.int64(8), "scores": jnp.ones(2)})
    content = RunDirectory.open(run.path).read_config()
    assert content["config"] == config
    assert content["resolved"] == {"chunk": 8, "scores": [1.0, 1.0]}
    environment = content["environment"]
    assert environment["jax"] == jax.__version__
    assert environment["numpy"] == np.__version__
    assert environment["python"] == sys.version.split()[0]
    assert len(environment["devices"]) == jax.device_count()
    assert {"commit", "started", "command_line", "gymnax", "evosax"} <= environment.keys()
    assert os.uname().nodename not in environment.values()
    for count in (1, 2):  # resumed
        run.write_config({"a": 2}, {}, run.read_config())
        again = run.read_config()
        assert again["environment"] == environment
        assert len(again["resumed"]) == count
    assert again["config"] == {"a": 2}


def test_metrics_are_valid_json_whatever_is_logged(run):
    record = {
        "kind": "something", "something": jnp.int32(3), "nan": np.float32(np.nan),
        "inf": math.inf, "array": np.array([1.0, -np.inf]), "mean": jnp.float32(0.5), "text": "é",
    }  # fmt: skip
    run.append_metrics(record)
    line = run.metrics_path.read_text()
    parsed = json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert parsed == {
        "kind": "something", "something": 3, "nan": None, "inf": None, "array": [1.0, None],
        "mean": 0.5, "text": "é",
    }  # fmt: skip
    assert list(run.read_metrics("something")) == [parsed]


def test_the_records_of_an_earlier_end_are_dropped(run):
    forget_end(run)
    assert not run.metrics_path.exists()
    evaluation = {"kind": "evaluation", "evaluation": 9}
    for record in (generation(0), evaluation, generation(1)):
        run.append_metrics(record)
    with run.metrics_path.open("a") as file:
        file.write('{"kind": "evaluation", "evalua')
    forget_end(run)
    assert [record for _, record in run.lines()] == [generation(0), generation(1)]
    assert run.metrics_path.read_bytes().endswith(b"}\n")


def test_appending_replaces_a_torn_line(run):
    run.append_metrics(generation(0))
    with run.metrics_path.open("ab") as file:
        file.write(b'{"half' + b"x" * 2**20)
    run.append_metrics(generation(1))
    run.sync()
    assert [row["generation"] for row in run.read_metrics("generation")] == [0, 1]


WRONG = [
    ("config.yaml", {"config": []}),
    ("config.yaml", {"resolved": 3}),
    ("metrics.jsonl", {"kind": None}),
    ("metrics.jsonl", {"generation": -1}),
    ("metrics.jsonl", {"generation": 0.5}),
    ("metrics.jsonl", {"frames": None}),
    ("metrics.jsonl", {"seconds": "1"}),
    ("metrics.jsonl", {"returns": [[1.0]]}),
]


@pytest.mark.parametrize(("file", "change"), WRONG)
def test_a_value_that_no_run_writes_is_refused_in_one_line(run, file, change):
    run.write_config({}, {"run_id": "a", "chunk_size": 2})
    run.append_metrics(generation(0, returns=[1.0, None]))
    readers = {
        "config.yaml": run.read_config,
        "metrics.jsonl": lambda: run.read_metrics("generation"),
    }
    found = readers[file]()
    content = found[0] if isinstance(found, list) else found
    (run.path / file).write_text(json.dumps(content | change) + "\n")
    with pytest.raises(ConfigError, match=file) as refused:
        readers[file]()
    assert len(str(refused.value).splitlines()) == 1


def test_latest_is_the_run_that_began_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def begin(path, began):
        config = Path(path) / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("")
        os.utime(config, (began, began))

    with pytest.raises(ConfigError, match="latest: there is no run under runs/"):
        run_path("latest")
    begin("runs/train/b", 1)
    begin("runs/evolve_value_loss/a", 3)
    begin("runs/c", 2)
    begin("runs/evolve_value_loss/a/transfer/later", 4)  # within a run
    begin("elsewhere/d", 5)
    latest = Path("runs/evolve_value_loss/a")
    assert run_path("latest") == latest
    for name, path in {"latest": latest, "./latest": Path("latest")}.items():
        flags = ["--config", "train/ppo_cartpole", "--run-dir", name]
        assert parse_settings(run_parser("train"), flags)[1].run_dir == path
    assert run_path("runs/c") == Path("runs/c")


KIND = Kind("work", "work", ("run.keep",))


@dataclass(frozen=True)
class Settings(HasRun):
    rate: float = 0.1
    run: RecordConfig = field(default_factory=RecordConfig)


def opened(path, *, resume=False, **settings):
    return open_run(KIND, Settings(**settings), run_dir=path, resume=resume)


def update(index):
    return {"kind": "update", "update": index, "frames": index}


def begin(path, updates):
    """A run that saves after every second update, and is stopped after some."""
    with opened(path) as run:
        run.start({"measured": 3})
        for index in range(updates):
            if index % 2 == 0:
                run.save(index, np.full(2, index), 1.5)
            run.log(update(index))
        signal.raise_signal(signal.SIGTERM)
        run.stop.check()
    return run


def test_a_stopped_run_continues_from_its_last_checkpoint_with_all_records(tmp_path, capsys):
    path = tmp_path / "run"
    assert begin(path, 5).stop.exit_code == 143
    assert f"stopped; continue with: --resume --run-dir {path}" in capsys.readouterr().err
    with opened(path, resume=True) as run:
        assert run.resolved["measured"] == 3
        tree, done, seconds = run.restore(np.zeros(2, int))
        assert (tree.tolist(), done, seconds) == ([4, 4], 4, 1.5)
        assert run.directory.read_metrics("update") == [update(index) for index in range(4)]
    for kept, found in (((0, 1, 3), 2), ((1, 2, 3, 4), 0)):  # one was lost
        lines = [json.dumps(update(index)) for index in kept]
        run.directory.metrics_path.write_text("\n".join(lines) + "\n")
        with (
            opened(path, resume=True) as run,
            pytest.warns(UserWarning, match="not usable: metrics.jsonl lacks records"),
        ):
            assert run.restore(np.zeros(2, int))[1] == found
    with pytest.raises(ConfigError, match=r"other settings \(rate: 0.1 -> 0.2\)"):
        opened(path, resume=True, rate=0.2).__enter__()


@pytest.mark.parametrize("had_files", [False, True])
def test_a_run_that_fails_before_its_first_record_can_be_tried_again(tmp_path, had_files):
    path = tmp_path / "run"
    if had_files:
        path.mkdir()
        (path / "mine").touch()

    def fail(records):
        with opened(path) as run:
            run.start({})
            run.save(0, np.zeros(2), 0.0)
            for index in range(records):
                run.log(update(index))
            raise KeyError("while tracing")

    for records in (0, 0, 1):
        with pytest.raises(KeyError):
            fail(records)
        assert path.exists() == (had_files or records == 1)
        assert (path / "mine").exists() == had_files
    with pytest.raises(ConfigError, match="already holds a run"):
        opened(path).__enter__()
    with opened(path, resume=True) as run:
        assert run.restore(np.zeros(2))[1] == 0
