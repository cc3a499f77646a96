"""Copies of a run on Weights & Biases and MLflow, sent by a thread or later by `metaevo sync`.

The run writes its own files only (`tracker`). A `Mirror` reads them, finds what a service lacks,
and sends it through the service's own client (`wandb_run`, `mlflow_run`).
"""

from metaevo.runs.tracking.tracker import RunTracker

__all__ = ["RunTracker"]
