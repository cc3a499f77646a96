import contextlib
import os
import sqlite3
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
import wandb

from metaevo.comparison import sources, wandb_runs
from metaevo.config import ConfigError
from metaevo.runs import trackers
from metaevo.runs.run import RecordConfig
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.trackers import Trackers

pytestmark = pytest.mark.filterwarnings("ignore:.*noload")  # of SQLAlchemy

RUN_ID = "abc123"
CONFIG = {"seeds": 2, "hyperparams": {"lr": 0.1}, "run": {"seed": 5}}


class TrackedRun:
    """A training's directory as far as trackers care, and its trackers; or one that resumes."""

    def __init__(self, path, **services):
        self.directory = RunDirectory(path)
        if not path.exists():
            resolved = {"run_id": RUN_ID, "job_type": "train"}
            RunDirectory.create(path, "").write_config(CONFIG, resolved)
        self.trackers = Trackers(self.directory, RecordConfig(**{"wandb_project": "p", **services}))

    def log(self, record):
        self.directory.append_metrics(record)
        self.trackers.log(record)

    def log_updates(self, indices):
        for index in indices:
            self.log(
                {"kind": "update", "update": index, "frames": 8 * index, "seconds": index / 2,
                 "mean_return": index * 1.5, "returns": [1.0, None if index == 1 else index * 1.5],
                 "text": "x", "flag": True, "nothing": None, "params": {"rate": 0.5}}
            )  # fmt: skip

    def end(self):
        for index, iqm in enumerate([3.0, 2.0]):
            self.log(
                {"kind": "evaluation", "evaluation": index, "seconds": 9.0, "name": "n", "iqm": iqm}
            )
        self.directory.figures.mkdir()
        (self.directory.figures / "curves.png").write_bytes(b"png")
        self.directory.report_path.write_text("<html></html>")
        self.trackers.close()


def read_mlflow(uri):
    """The only run, with the names of its artifacts, and its metrics as lists of step and value."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    (run,) = client.search_runs([each.experiment_id for each in client.search_experiments()])
    key = run.info.run_id
    artifacts = sorted(each.path for each in client.list_artifacts(key))
    metrics = {
        name: sorted([each.step, each.value] for each in client.get_metric_history(key, name))
        for name in run.data.metrics
    }
    return run, artifacts, metrics


KILLED = """
import os, sys
from pathlib import Path
from tests.metaevo.runs.test_trackers import TrackedRun
TrackedRun(Path(sys.argv[1]), wandb="offline", mlflow=sys.argv[2]).log_updates(range(3))
os._exit(9)
"""


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A run that was killed and resumed, logged to both services, and the database."""
    place = tmp_path_factory.mktemp("place")
    path, uri = place / "run", f"sqlite:///{place}/store.db"
    command = [sys.executable, "-c", KILLED, str(path), uri]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    kept |= {"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(place)}
    done = subprocess.run(command, capture_output=True, text=True, env=kept, check=False)
    assert done.returncode == 9, done.stderr
    assert "warning: " not in done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("WANDB_MODE", raising=False)
        wandb.teardown()  # the service of earlier tests, which may have ended
        run = TrackedRun(path, wandb="offline", mlflow=uri)
        lines = run.directory.metrics_path.read_bytes().splitlines(keepends=True)
        run.directory.metrics_path.write_bytes(b"".join(lines[:2]))
        run.log_updates([2, 3])
        run.end()
    return path, uri


@pytest.mark.long
def test_wandb_has_one_run_with_the_records_of_the_directory(sent, tmp_path):
    path, _ = sent
    (file,) = path.glob("wandb/offline-run-*/*.wandb")
    (found,), stored = wandb_runs.read(f"wandb:{path}"), sources.read(path)
    assert found.is_finished
    for run in (found, stored):
        assert (run.seed, run.settings) == ("5", {"hyperparams.lr": "0.1"})
        np.testing.assert_array_equal(run.x, [0, 4, 8, 12])  # of each agent
        assert [curve.seed for curve in run.curves("mean_return")] == ["5/0", "5/1"]
        assert [curve.y.tolist() for curve in run.curves("mean_return")] == [[1] * 4, [0, 3, 4.5]]
    entries = wandb_runs.entries(file)
    (head,) = entries["run"]
    assert [head[key] for key in ("run_id", "job_type", "display_name", "project")] == [
        RUN_ID, "train", "run", "p",
    ]  # fmt: skip
    assert {"commit", "command_line", "jax"} <= set(head["config"]["update"]["environment"])
    rows = [each["item"] for each in entries["history"]]
    assert [row["evaluation/iqm"] for row in rows[4:]] == [3.0, 2.0]
    assert rows[0]["update/params.rate"] == 0.5
    assert len(entries["artifact"]) == 2
    # A killed run lacks its end.
    cut = tmp_path / "run-cut.wandb"
    cut.write_bytes(file.read_bytes()[:-200])
    assert [run.is_finished for run in wandb_runs.read(f"wandb:{tmp_path}")] == [False]
    cut.write_bytes(b"no log of wandb")
    with pytest.raises(ConfigError, match=r"run-cut\.wandb"):
        wandb_runs.read(f"wandb:{cut}")


@pytest.mark.long
def test_mlflow_has_one_run_with_every_value_once(sent):
    path, uri = sent
    run, artifacts, metrics = read_mlflow(uri)
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert metrics["update/mean_return"] == [[0, 0.0], [1, 1.5], [2, 3.0], [3, 4.5]]
    assert metrics["update/returns.1"] == [[0, 0.0], [2, 3.0], [3, 4.5]]
    assert metrics["evaluation/iqm"] == [[0, 3.0], [1, 2.0]]
    assert "update/flag" not in metrics
    assert run.data.params["hyperparams.lr"] == "0.1"
    assert run.data.tags["job_type"] == "train"
    assert artifacts == ["figures", "report.html"]
    stored = path.parent / "store_artifacts"
    assert [path.name for path in stored.rglob("figures/*")] == ["curves.png"]


class FakeRun:
    def __init__(self, known, breaks_at=None):
        self.summary, self.rows, self.breaks_at = known, [], breaks_at

    def define_metric(self, *_, **__):
        pass

    def log(self, row):
        if row["update/index"] == self.breaks_at:
            raise ConnectionError("the connection\nis lost")
        self.rows.append(row)

    def finish(self, exit_code):
        self.exit_code = exit_code


@pytest.fixture
def online(monkeypatch):
    """`online(server)` replaces wandb's run, and returns the options that it is opened with."""

    def replace_client(server):
        opened = []
        monkeypatch.setattr("wandb.login", lambda **_: True)
        monkeypatch.setattr("wandb.init", lambda **options: opened.append(options) or server)
        return opened

    return replace_client


def test_a_resumed_run_continues_at_the_server(tmp_path, online):
    """It has generations 0 and 1; the others were lost with the process."""
    server = FakeRun({"update/index": 1})
    TrackedRun(tmp_path / "run").log_updates(range(4))
    opened = online(server)
    run = TrackedRun(tmp_path / "run", wandb="online")
    run.log_updates([4])
    run.trackers.close()
    assert [row["update/index"] for row in server.rows] == [2, 3, 4]
    assert server.exit_code == 1  # without a report
    (options,) = opened
    assert (options["id"], options["resume"]) == (RUN_ID, "allow")


NOWHERE = {"WANDB_PROJECT": None, "WANDB_RUN_GROUP": None, "WANDB_JOB_TYPE": None}
OURS = {"entity": None, "project": "metaevo", "group": None, "tags": None, "job_type": "train"}
NAMED = {f"wandb_{key}": "mine" for key in OURS} | {"wandb_tags": ("a", "b")}
WANTED = {
    "nothing": ({}, {}, OURS),
    "variables": (  # wandb reads those of entity and tags itself
        {}, dict.fromkeys(NOWHERE, "v"), OURS | {"project": "v", "group": "v", "job_type": "v"},
    ),
    "settings": (
        NAMED, dict.fromkeys(NOWHERE, "v"), dict.fromkeys(OURS, "mine") | {"tags": ("a", "b")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "variables", "options"), WANTED.values(), ids=WANTED)
def test_settings_come_before_variables_before_defaults(
    settings, variables, options, tmp_path, online, monkeypatch
):
    for name, value in (NOWHERE | variables).items():
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_MODE", "online" if settings else "disabled")
    opened = online(FakeRun({}))
    mode = {} if settings else {"wandb": "online"}
    run = TrackedRun(tmp_path / "run", **{"wandb_project": None, **mode, **settings})
    run.log_updates([0])
    assert {key: opened[0][key] for key in options} == options
    assert opened[0]["config"]["hyperparams"] == {"lr": 0.1}


def test_evolutions_of_a_run_are_a_group(tmp_path, online):
    opened = online(FakeRun({}))
    outer = tmp_path / "x" / "a"
    run = TrackedRun(outer, wandb="online")
    TrackedRun(outer / "seed_0", wandb="online").log_updates([0])
    run.log_updates([0])
    assert [each["group"] for each in opened] == [str(outer)] * 2


class FakeMlflow:
    taken: ClassVar[list[int]] = []

    def __init__(self, *_):
        pass

    def log(self, records):
        self.taken += [record["update"] for record in records]

    def finish(self, *, completed):
        pass


def test_a_service_that_is_lost_costs_one_warning_and_no_other_service(
    tmp_path, online, monkeypatch, capfd
):
    server = FakeRun({}, breaks_at=1)
    online(server)
    monkeypatch.setattr(trackers, "_Mlflow", FakeMlflow)
    run = TrackedRun(tmp_path / "run", wandb="online", mlflow="http://nowhere")
    run.log_updates(range(4))
    run.trackers.close()
    assert len(server.rows) == 1
    assert list(dict.fromkeys(FakeMlflow.taken)) == [0, 1, 2, 3]
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert "wandb (online): the connection is lost" in said[0]


@pytest.mark.long
def test_a_service_that_cannot_be_opened_costs_one_warning(tmp_path, monkeypatch, capfd):
    """Its database is locked; tests/experiments/test_train.py has a server that never answers."""
    monkeypatch.setattr("mlflow.store.db.utils.MAX_RETRY_COUNT", 2)
    store = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.executescript("create table t (x); begin exclusive;")
        run = TrackedRun(tmp_path / "run", mlflow=f"sqlite:///{store}")
        run.log_updates(range(2))
        run.trackers.close()
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert said[0].endswith("; the run continues without it")
    assert len(run.directory.read_metrics("update")) == 2
