"""Restores a run from its newest usable checkpoint with complete records."""

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from metaevo.runs import checkpoint, schema
from metaevo.runs.run_directory import RunDirectory
from purerl.types import PyTree


class Resumed(NamedTuple):
    """The saved state of a run."""

    tree: PyTree
    done: int
    """index of the checkpoint: generations or updates"""
    seconds: float
    """seconds of work until the checkpoint"""


def restore_run(
    run: RunDirectory,
    kind: str,
    template: PyTree,
    run_id: str,
    logged: Callable[[int], Iterable[int]],
) -> Resumed | None:
    """Restore the newest checkpoint with complete records, and drop the records after it.

    If metrics.jsonl lacks records before a checkpoint, an earlier one is restored, and the work
    since then is repeated.

    Args:
        run: the directory of the run.
        kind: kind of the records.
        template: structure, shapes and dtypes of the saved tree.
        run_id: id of the run, which is stored in its checkpoints.
        logged: maps the index of a checkpoint to the indices of all records before it.

    Returns:
        the restored state; None if the run was killed before its first record or checkpoint.

    Raises:
        ConfigError: if no checkpoint is usable.
    """
    found = run.read_metrics(kind).column(kind).tolist()
    saved = checkpoint.indices(run.checkpoints)
    if not saved and not found:
        return None
    counts = {index: len(list(logged(index))) for index in saved}
    covered = [index for index in saved if found[: counts[index]] == list(logged(index))]
    if covered != saved:
        print(
            f"{run.metrics_path}: lacks records of the kind {kind}; going back to an earlier "
            "checkpoint, the rest is computed again",
            file=sys.stderr,
        )
    restored = checkpoint.restore(
        run.checkpoints, template, expected={"run_id": run_id}, kind=schema.Saved, among=covered
    )
    run.truncate_metrics(kind, counts[restored.index])
    return Resumed(restored.tree, restored.index, float(restored.metadata["seconds"]))
