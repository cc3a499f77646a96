"""Real wandb and MLflow: what they have of a run, sent live, later, twice, and in vain."""

import os
import sqlite3
import threading
import time

import pytest

from metaevo.commands.sync import main
from metaevo.runs.tracking import mirror
from metaevo.runs.tracking.destination import Destination
from metaevo.runs.tracking.mirror import Mirror
from metaevo.runs.tracking.tracker import mirrored
from tests.metaevo.runs.tracking.runs import (
    RUN_ID,
    finish_run,
    log_generations,
    make_run,
    read_mlflow,
    read_wandb,
    rows_of,
    silence,
    sync,
)

pytestmark = pytest.mark.long

KEY = "0" * 40


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A run sent in two parts to both services, and the database."""
    place = tmp_path_factory.mktemp("place")
    run, uri = make_run(place / "run", 2), f"sqlite:///{place}/store.db"
    to = (place / "r*n", "--wandb", "offline", "--mlflow", uri)
    sync(*to)
    log_generations(run, [2])
    finish_run(run)
    assert len(sync(*to).splitlines()) == 2
    return run, uri


def test_wandb_has_every_row_once_and_its_groups(sent):
    run, _ = sent
    by_id = {entries["run"][0]["run_id"]: entries for entries in read_wandb(run)}
    assert set(by_id) == {RUN_ID, f"{RUN_ID}-trial_0", f"{RUN_ID}-trial_1"}
    assert len(list((run.path / "wandb").glob("offline-run-*"))) == 3
    own, child = by_id[RUN_ID], by_id[f"{RUN_ID}-trial_1"]
    assert rows_of(own)[:3] == [
        {
            "generation/index": n,
            "generation/frames": 8 * n,
            "generation/fitness_mean": n * 1.5,
            "generation/seconds": n / 2,
        }
        for n in range(3)
    ]
    assert [row["evaluation/iqm"] for row in rows_of(own)[3:]] == [3.0, 2.0]
    heads = [each["run"][0] for each in (own, child)]
    assert [head["job_type"] for head in heads] == ["evolution", "trial"]
    assert [head["display_name"] for head in heads] == ["run", "run/trial_1"]
    assert {(head["run_group"], head["project"]) for head in heads} == {("run", "p")}
    config = heads[0]["config"]["update"]
    assert config["a"] == {"b": 1}
    assert {"git", "command_line", "jax"} <= set(config["environment"])
    assert [row["update/mean_return"] for row in rows_of(child)] == [0.2, 1.2]
    assert len(own["artifact"]) == 2


def test_mlflow_has_every_value_once_and_nested_runs(sent):
    run, uri = sent
    runs = read_mlflow(uri)
    assert set(runs) == {"run", "run/trial_0", "run/trial_1"}
    root = runs["run"]
    assert root["metrics"]["generation/fitness_mean"] == [[0, 0.0], [1, 1.5], [2, 3.0]]
    assert root["metrics"]["evaluation/iqm"] == [[0, 3.0], [1, 2.0]]
    assert "generation/flag" not in root["metrics"]
    assert (root["status"], root["experiment"]) == ("FINISHED", "p")
    assert root["params"]["a.b"] == "1"
    assert root["tags"]["job_type"] == "evolution"
    assert root["artifacts"] == ["figures", "report.html"]
    stored = run.path.parent / "store_artifacts"
    assert [path.name for path in stored.rglob("figures/*")] == ["fitness.png"]  # no temporary file
    child = runs["run/trial_1"]
    assert child["tags"]["mlflow.parentRunId"] == root["id"]
    assert child["params"]["rate"] == "0.2"
    assert child["metrics"]["update/mean_return"] == [[0, 0.2], [1, 1.2]]
    assert child["status"] == "FINISHED"


class FakeRun:
    """A run of wandb's client that a server already has in part."""

    def __init__(self, known):
        self.id, self.summary, self.rows = RUN_ID, known, []
        self.log = self.rows.append

    def define_metric(self, *_, **__):
        pass

    def log_artifact(self, artifact):
        raise ConnectionError("no artifacts today")


def test_a_sync_that_failed_half_way_is_completed(tmp_path, monkeypatch, capsys):
    """The server has generations 0 and 1, and then takes no artifacts."""
    run, opened = make_run(tmp_path / "run"), []
    finish_run(run)
    run.tracked_path.unlink()
    (own,) = server = [FakeRun({"generation/index": 1})]
    monkeypatch.setattr("wandb.login", lambda **_: True)
    monkeypatch.setattr("wandb.init", lambda **options: opened.append(options) or server.pop())
    assert main([str(run.path), "--wandb"], description=None) == 1
    assert "no artifacts today" in capsys.readouterr().err
    assert [row.get("generation/index") for row in own.rows] == [2, None, None]
    assert (opened[0]["id"], opened[0]["resume"]) == (RUN_ID, "allow")


def test_a_file_that_is_replaced_while_a_run_is_sent_is_not_sent_twice(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = make_run(tmp_path / "run")
    mirror = Mirror(run, Destination("wandb", "offline", "p"))
    mirror.catch_up()
    run.truncate_metrics("evaluation", 0)
    log_generations(run, [3])
    mirror.catch_up()
    mirror.finish()
    (own,) = read_wandb(run)
    assert [row["generation/index"] for row in rows_of(own)] == [0, 1, 2, 3]


@pytest.mark.filterwarnings("ignore:.*noload")  # of SQLAlchemy in MLflow, in our thread
def test_a_resumed_run_is_sent_live(tmp_path):
    run, uri = make_run(tmp_path / "run", 2), f"sqlite:///{tmp_path}/store.db"
    to = [Destination("mlflow", uri, "p")]
    with mirrored(run, to, wait=60.0):
        log_generations(run, [2, 3])
    assert read_mlflow(uri)["run"]["status"] == "KILLED"
    with mirrored(run, to, wait=60.0):
        run.truncate_metrics("generation", 3)
        log_generations(run, [3, 4])
        finish_run(run)
    stored = read_mlflow(uri)["run"]
    assert stored["status"] == "FINISHED"
    assert [step for step, _ in stored["metrics"]["generation/frames"]] == [0, 1, 2, 3, 4]


class Service:
    """Takes everything."""

    id = "id"

    def __init__(self, taken):
        self.log = taken.extend

    def finish(self, *, completed):
        pass


def test_a_service_that_hangs_does_not_hold_up_another(tmp_path, monkeypatch):
    run, hanging, taken = make_run(tmp_path / "run"), threading.Event(), []

    def open_remote(destination, *_):
        if destination.service == "mlflow":
            hanging.wait(60)
        return Service(taken)

    monkeypatch.setattr(mirror, "open_remote", open_remote)
    to = [Destination("mlflow", "http://nowhere", "p"), Destination("wandb", "offline", "p")]
    with mirrored(run, to, wait=5.0):
        log_generations(run, [3])
    assert [record["generation"] for record in taken] == [0, 1, 2, 3]
    hanging.set()


@pytest.mark.parametrize("fault", ["silent", "dead", "no key", "locked", "no database"])
def test_a_service_that_fails_costs_one_warning(fault, tmp_path, monkeypatch, capfd):
    for name in [name for name in os.environ if name.startswith("WANDB")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    run = make_run(tmp_path / "run")
    wandb, mlflow = Destination("wandb", "online", "p"), tmp_path / "store.db"
    to = {"locked": mlflow, "no database": tmp_path}.get(fault)
    connection = sqlite3.connect(mlflow, check_same_thread=False)
    if fault == "locked":
        connection.execute("create table t (x)")
        connection.commit()
        connection.execute("begin exclusive")
    if fault != "no key":
        monkeypatch.setenv("WANDB_API_KEY", KEY)
    with silence() as url:
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9" if fault == "dead" else url)
        destination = wandb if to is None else Destination("mlflow", f"sqlite:///{to}", "p")
        with mirrored(run, [destination], wait=3.0):
            log_generations(run, [3])
            started = time.monotonic()
        assert time.monotonic() - started < 60  # far more than `wait` on a busy machine
    connection.close()
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert f"metaevo sync {run.path}" in said[0]
    assert len(run.read_metrics("generation")) == 4
