"""A run directory without a run, and what services are found to have of it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from metaevo.runs.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parents[4]
RUN_ID = "abc123"
CHILDREN = {"trial_0": 0.1, "trial_1": 0.2}


def make_run(path, generations=3):
    """An evolution's directory as far as trackers care."""
    run = RunDirectory.create(path, "")
    config = {"a": {"b": 1}, "run": {"wandb_project": "p"}}
    run.write_config(config, {"run_id": RUN_ID, "job_type": "evolution"})
    log_generations(run, range(generations))
    return run


def log_generations(run, indices):
    for index in indices:
        run.append_metrics(
            {"kind": "generation", "generation": index, "frames": 8 * index, "seconds": index / 2,
             "fitness_mean": index * 1.5, "text": "x", "flag": True, "nothing": None, "list": [1]}
        )  # fmt: skip


def finish_run(run):
    """What the end of a run leaves: a comparison, a picture, a report, two nested runs."""
    for index, iqm in enumerate([3.0, 2.0]):
        run.append_metrics(
            {"kind": "evaluation", "evaluation": index, "seconds": 9.0, "name": "n", "iqm": iqm}
        )
    for name, rate in CHILDREN.items():
        rows = [
            {"kind": "update", "update": update, "mean_return": rate + update}
            for update in range(2)
        ]
        run.append_child(
            {"child": name, "job_type": "trial", "config": {"rate": rate}, "records": rows}
        )
    run.figures.mkdir()
    (run.figures / "fitness.png").write_bytes(b"png")
    (run.figures / ".scores.png.12.tmp").write_bytes(b"half")
    run.report_path.write_text("<html></html>")


def environment(**changes):
    """That of a process, without anything of the user's that wandb reads."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def sync(pattern, *arguments, code=0, **changes):
    """Run the script; what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "metaevo", "sync", str(pattern), *map(str, arguments)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=500,
        env=environment(HOME=str(pattern.parent), **changes), check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@contextlib.contextmanager
def silence():
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def read_wandb(run):
    """Of every offline run in the directory, in order: its entries by type."""
    found = []
    for path in sorted((run.path / "wandb").glob("offline-run-*/*.wandb")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
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
