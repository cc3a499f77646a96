"""Real wandb and MLflow: what they have of a run that was killed and resumed; and failures."""

import os
import sqlite3
import subprocess
import sys
from typing import ClassVar

import pytest

from metaevo.runs import trackers
from tests.metaevo.runs.tracked import (
    RUN_ID,
    TrackedRun,
    environment,
    read_mlflow,
    read_wandb,
    rows_of,
)

pytestmark = pytest.mark.long

PARTS = """
import sys
from typing import ClassVar
from pathlib import Path
from tests.metaevo.runs.tracked import TrackedRun
run = TrackedRun(Path(sys.argv[1]), wandb="offline", mlflow=sys.argv[2])
if sys.argv[3] == "begin":
    run.log_generations(range(3))
    import os
    os._exit(9)  # killed
run.directory.truncate_metrics("generation", 2)
run.log_generations([2, 3])
run.end()
"""


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A run that was killed and resumed, logged to both services, and the database."""
    place = tmp_path_factory.mktemp("place")
    path, uri = place / "run", f"sqlite:///{place}/store.db"
    for part, code in (("begin", 9), ("end", 0)):
        done = subprocess.run(
            [sys.executable, "-c", PARTS, str(path), uri, part],
            capture_output=True, text=True, env=environment(HOME=str(place)), check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert "warning: " not in done.stderr
    return path, uri


def test_wandb_has_one_run_with_every_row_once(sent):
    path, _ = sent
    (run,) = read_wandb(path)
    rows = rows_of(run)
    assert rows[:4] == [
        {
            "generation/index": n,
            "generation/frames": 8 * n,
            "generation/fitness_mean": n * 1.5,
            "generation/seconds": n / 2,
            "generation/returns.0": 1.5,
            "generation/params.rate": 0.5,
        }
        for n in range(4)
    ]
    assert [row["evaluation/iqm"] for row in rows[4:]] == [3.0, 2.0]
    (head,) = run["run"]
    shown = head["run_id"], head["job_type"], head["display_name"], head["project"]
    assert shown == (RUN_ID, "evolution", "run", "p")
    config = head["config"]["update"]
    assert config["a"] == {"b": 1}
    assert {"git", "command_line", "jax"} <= set(config["environment"])
    assert len(run["artifact"]) == 2


def test_mlflow_has_one_run_with_every_value_once(sent):
    path, uri = sent
    runs = read_mlflow(uri)
    assert set(runs) == {"run"}
    run = runs["run"]
    means = [[0, 0.0], [1, 1.5], [2, 3.0], [3, 4.5]]
    assert run["metrics"]["generation/fitness_mean"] == means
    assert run["metrics"]["generation/returns.0"] == [[n, 1.5] for n in range(4)]
    assert run["metrics"]["evaluation/iqm"] == [[0, 3.0], [1, 2.0]]
    assert "generation/flag" not in run["metrics"]
    assert (run["status"], run["experiment"]) == ("FINISHED", "p")
    assert run["params"]["a.b"] == "1"
    assert run["tags"]["job_type"] == "evolution"
    assert run["artifacts"] == ["figures", "report.html"]
    stored = path.parent / "store_artifacts"
    assert [path.name for path in stored.rglob("figures/*")] == ["fitness.png"]


class FakeRun:
    """A run of wandb's client that a server already has in part."""

    def __init__(self, known, breaks_at=None):
        self.summary, self.rows, self.breaks_at = known, [], breaks_at

    def define_metric(self, *_, **__):
        pass

    def log(self, row):
        if row["generation/index"] == self.breaks_at:
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
    server = FakeRun({"generation/index": 1})
    TrackedRun(tmp_path / "run").log_generations(range(4))
    opened = online(server)
    run = TrackedRun(tmp_path / "run", wandb="online")
    run.log_generations([4])
    run.trackers.close()
    assert [row["generation/index"] for row in server.rows] == [2, 3, 4]
    assert server.exit_code == 1  # without a report
    (options,) = opened
    assert (options["id"], options["resume"]) == (RUN_ID, "allow")


class FakeMlflow:
    """Takes everything."""

    taken: ClassVar[list[int]] = []

    def __init__(self, *_):
        pass

    def log(self, records):
        self.taken += [record["generation"] for record in records]

    def finish(self, *, completed):
        pass


def test_a_service_that_is_lost_costs_one_warning_and_no_other_service(
    tmp_path, online, monkeypatch, capfd
):
    server = FakeRun({}, breaks_at=1)
    online(server)
    monkeypatch.setattr(trackers, "_Mlflow", FakeMlflow)
    run = TrackedRun(tmp_path / "run", wandb="online", mlflow="http://nowhere")
    run.log_generations(range(4))
    run.trackers.close()
    assert len(server.rows) == 1
    assert list(dict.fromkeys(FakeMlflow.taken)) == [0, 1, 2, 3]
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert "wandb (online): the connection is lost" in said[0]


@pytest.mark.filterwarnings("ignore:.*noload")  # of SQLAlchemy in MLflow
@pytest.mark.parametrize("fault", ["dead", "no key", "locked", "no database"])
def test_a_service_that_cannot_be_opened_costs_one_warning(fault, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(trackers, "_START_SECONDS", 2.0)
    monkeypatch.setattr("mlflow.store.db.utils.MAX_RETRY_COUNT", 2)
    for name in [name for name in os.environ if name.startswith("WANDB")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = tmp_path / "store.db"
    connection = sqlite3.connect(store)
    if fault == "locked":
        connection.execute("create table t (x)")
        connection.commit()
        connection.execute("begin exclusive")
    if fault == "dead":
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    place = {"locked": store, "no database": tmp_path}.get(fault)
    services = {"wandb": "online"} if place is None else {"mlflow": f"sqlite:///{place}"}
    run = TrackedRun(tmp_path / "run", **services)
    run.log_generations(range(2))
    run.trackers.close()
    connection.close()
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert said[0].endswith("; the run continues without it")
    assert len(run.directory.read_metrics("generation")) == 2
