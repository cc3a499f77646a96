"""Mirrors of a run on tracking servers. If they fail, the run continues; `sync` sends the rest.

The run only appends lines to files (`tracker`). A process of its own for every service (`process`,
`mirror`) reads those files and hands them on (`wandb_service`, `mlflow_service`). `state` keeps
what has arrived, `backlog` finds what has not, `sync` sends that later.
"""

from metaevo.runs.tracking.tracker import RunTracker, Tracker

__all__ = ["RunTracker", "Tracker"]
