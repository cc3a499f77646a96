"""Trackers in every state that a server can be in: a run's results are the same to the bit."""

import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from metaevo.config import dump_yaml
from tests.faults.soak import ROOT
from tests.faults.test_numbers import EVOLUTION, GRID
from tests.metaevo.runs.tracking.fake_wandb import silence
from tests.metaevo.runs.tracking.runs import environment, read_mlflow, sync

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

CONFIGS = {
    "evolve_value_loss": EVOLUTION
    | {"evolution": {"generations": 8, "validation_seeds": 2}, "evaluation": {"seeds": 0}},
    "train": GRID | {"seeds": 2, "evaluation": {"episodes": 0}},
}


@contextlib.contextmanager
def answering(status):
    """A server that answers everything with one HTTP status; its address."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_PUT = answer  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def unreachable():
    """An address where nobody listens."""
    yield "http://127.0.0.1:9"


@contextlib.contextmanager
def locked(folder):
    """A database that somebody else writes to all the time."""
    path = folder / "locked.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t (x)")
        connection.commit()
        connection.execute("begin exclusive")
        yield f"sqlite:///{path}"
        connection.rollback()


@contextlib.contextmanager
def full(folder):
    """A database on a disk without room."""
    path = folder / "full.db"
    path.symlink_to("/dev/full")
    yield f"sqlite:///{path}"


@contextlib.contextmanager
def working(folder):
    """A database that works."""
    yield f"sqlite:///{folder / 'store.db'}"


def run(script, path, *arguments, **changes):
    """Run a script to its end; return its stderr."""
    config = path.parent / f"{path.name}.yaml"
    config.write_text(dump_yaml(CONFIGS[script]), encoding="utf-8")
    log = path.parent / f"{path.name}.txt"
    command = [sys.executable, f"experiments/{script}.py", "--config", config, "--run-dir", path]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*map(str, command), "--run.track_wait", "3", *arguments],
            cwd=ROOT,
            env=environment(HOME=str(path.parent), MLFLOW_DISABLE_TELEMETRY="true", **changes),
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
        process.wait()
    text = log.read_text()
    assert process.returncode == 0, text
    assert "Traceback" not in text
    return text


def results(path):
    """What a run has computed: its records without their times, the digests of what it saved."""
    lines = (path / "metrics.jsonl").read_text().splitlines()
    saved = [
        json.loads(file.read_bytes())["sha256"] for file in sorted(path.glob("**/metadata.json"))
    ]
    return [{**json.loads(line), "seconds": 0} for line in lines], saved


FAULTS = {
    "wandb unreachable, MLflow locked": (unreachable, locked),
    "wandb forbids, MLflow's disk is full": (lambda: answering(401), full),
    "wandb fails, MLflow works": (lambda: answering(500), working),
    "wandb never answers, MLflow works": (silence, working),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What the runs compute without trackers."""
    folder = tmp_path_factory.mktemp("alone")
    found = {}
    for script in CONFIGS:
        run(script, folder / script)
        found[script] = results(folder / script)
        assert len(found[script][0]) >= 8
        assert len(found[script][1]) >= 2
    return found


def assert_arrived(records, stored):
    """MLflow has all finite numbers of all records, each once."""
    assert stored["status"] == "FINISHED"
    for kind in {record["kind"] for record in records}:
        own = [record for record in records if record["kind"] == kind]
        for name in own[0].keys() - {"kind", "seconds", kind}:
            expected = [[record[kind], record[name]] for record in own if _is_number(record[name])]
            assert stored["metrics"].get(f"{kind}/{name}", []) == expected, name


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.parametrize("script", CONFIGS)
@pytest.mark.parametrize("case", FAULTS)
def test_a_tracker_that_fails_changes_nothing(case, script, alone, tmp_path):
    wandb, mlflow = FAULTS[case]
    with wandb() as url, mlflow(tmp_path) as uri:
        trackers = ("--wandb", "online", "--mlflow", uri)
        key = {"WANDB_BASE_URL": url, "WANDB_API_KEY": "0" * 40}
        said = run(script, tmp_path / "run", *trackers, **key)
    assert results(tmp_path / "run") == alone[script]
    assert "warning: wandb (online)" in said
    complaints = [line for line in said.splitlines() if "warning: mlflow" in line]
    if mlflow is not working:
        assert complaints
    else:  # on a busy machine it may need longer than `run.track_wait`
        assert all("send the rest later" in line for line in complaints)
        sync(tmp_path / "run", "--mlflow", uri)
        assert_arrived(alone[script][0], read_mlflow(uri)["run"])
