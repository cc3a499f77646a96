"""A run without work, and the records of it that MLflow has."""

from metaevo.runs.run import RecordConfig
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.trackers import Trackers

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
        """What the end of a run leaves: a comparison, a picture and a report."""
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
