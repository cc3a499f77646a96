"""A run without work, and what services are found to have of it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.settings import RecordConfig
from metaevo.runs.trackers import Trackers

ROOT = Path(__file__).resolve().parents[3]
RUN_ID = "abc123"


class TrackedRun:
    """An evolution's directory as far as trackers care, and its trackers; or one that resumes."""

    def __init__(self, path, **services):
        self.directory = RunDirectory(path)
        if not path.exists():
            config = {"a": {"b": 1}, "run": {"wandb_project": "p"}}
            RunDirectory.create(path, "").write_config(
                config, {"run_id": RUN_ID, "job_type": "evolution"}
            )
        self.trackers = Trackers(self.directory, RecordConfig(wandb_project="p", **services))

    def log(self, record):
        self.directory.append_metrics(record)
        self.trackers.log(record)

    def log_generations(self, indices):
        for index in indices:
            self.log(
                {"kind": "generation", "generation": index, "frames": 8 * index,
                 "seconds": index / 2, "fitness_mean": index * 1.5, "text": "x", "flag": True,
                 "nothing": None, "returns": [1.5, None], "params": {"rate": 0.5}}
            )  # fmt: skip

    def end(self):
        """What the end of a run leaves: a comparison, a picture and a report."""
        for index, iqm in enumerate([3.0, 2.0]):
            self.log(
                {"kind": "evaluation", "evaluation": index, "seconds": 9.0, "name": "n", "iqm": iqm}
            )
        self.directory.figures.mkdir()
        (self.directory.figures / "fitness.png").write_bytes(b"png")
        self.directory.report_path.write_text("<html></html>")
        self.trackers.close()


def environment(**changes):
    """That of a process, without anything of the user's that wandb reads."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


@contextlib.contextmanager
def silence():
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def read_wandb(path):
    """Of every offline run in the directory, in order: its entries by type."""
    found = []
    for file in sorted((path / "wandb").glob("offline-run-*/*.wandb")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        entries = {}
        for line in text.splitlines():
            entry = json.loads(line)
            entries.setdefault(entry["type"], []).append(entry.get(entry["type"]))
        found.append(entries)
    return found


def rows_of(entries):
    """The history of a run read back, without wandb's own fields."""
    items = [each["item"] for each in entries.get("history", [])]
    return [{k: v for k, v in item.items() if not k.startswith("_")} for item in items]


READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
runs = []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        id = run.info.run_id
        runs.append({
            "id": id, "name": run.info.run_name, "status": run.info.status,
            "experiment": experiment.name, "params": run.data.params, "tags": run.data.tags,
            "artifacts": sorted(each.path for each in client.list_artifacts(id)),
            "metrics": {
                key: sorted([each.step, each.value] for each in client.get_metric_history(id, key))
                for key in run.data.metrics
            },
        })
print(json.dumps(runs))
"""


def read_mlflow(uri):
    """All runs by name."""
    done = subprocess.run(
        [sys.executable, "-c", READ_MLFLOW, uri],
        check=True, capture_output=True, text=True,
        env=environment(MLFLOW_DISABLE_TELEMETRY="true"),
    )  # fmt: skip
    runs = json.loads(done.stdout)
    assert len({run["name"] for run in runs}) == len(runs)
    return {run["name"]: run for run in runs}
