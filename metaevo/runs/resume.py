"""Where a run continues: at the newest usable checkpoint whose records are all there."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from metaevo.config import ConfigError
from metaevo.runs import checkpoint, schema
from metaevo.runs.run_directory import RunDirectory


class Resumed(NamedTuple):
    """The state of a run as it was saved."""

    tree: Any
    done: int
    """the index of the checkpoint: generations, or updates"""
    seconds: float
    """of work until then"""


def restore_run(
    run: RunDirectory, kind: str, template: Any, run_id: str, logged: Callable[[int], Iterable[int]]
) -> Resumed | None:
    """Restore the newest checkpoint that the records of a run cover; forget what follows it.

    If metrics.jsonl lacks records before a newer checkpoint, the run goes back and computes them
    again, and a line says so.

    Args:
        run: the directory of the run.
        kind: of the records that count its progress.
        template: of the saved state.
        run_id: of the run, which its checkpoints name.
        logged: from the index of a checkpoint to the indices of all records before it.

    Returns:
        what was saved; None if the run was killed before anything was saved or logged.

    Raises:
        ConfigError: if no checkpoint can be used.
    """
    found = run.read_metrics(kind).column(kind).tolist()
    left = checkpoint.indices(run.checkpoints)
    if not left and not found:
        return None
    newest = lost = None
    while True:
        try:
            restored = checkpoint.restore(
                run.checkpoints,
                template,
                expected={"run_id": run_id},
                kind=schema.Saved,
                among=left,
            )
        except ConfigError as error:
            if lost is None:
                raise
            raise ConfigError(
                f"{run.metrics_path}: has no {kind} {lost} in its place, and no checkpoint from "
                f"before it can be used (the newest one: {newest}); start a new run"
            ) from error
        gap = _gap(found, logged(restored.index))
        if gap is None:
            break
        newest, lost = newest or restored.index, gap
        left = [index for index in left if index < restored.index]
    if lost is not None:
        print(
            f"{run.metrics_path}: has no {kind} {lost} in its place; going back from checkpoint "
            f"{newest} to {restored.index}, what follows is computed again",
            file=sys.stderr,
        )
    run.truncate_metrics(kind, sum(1 for _ in logged(restored.index)))
    return Resumed(restored.tree, restored.index, float(restored.metadata["seconds"]))


def _gap(found: Sequence[int], wanted: Iterable[int]) -> int | None:
    """Return the first index that is not where it belongs."""
    places = enumerate(wanted)
    return next((i for place, i in places if place >= len(found) or found[place] != i), None)


def check_chunk_size(run: RunDirectory, resolved: dict[str, Any], most: int) -> None:
    """Refuse a resolved chunk size that would fill the devices with nothing.

    Args:
        run: the directory of the run.
        resolved: that section of config.yaml.
        most: agents that there are, or that the settings want at once.

    Raises:
        ConfigError: if it is larger.
    """
    size = resolved.get("chunk_size", 1)
    if size > most:
        raise ConfigError(
            f"{run.config_path}: resolved.chunk_size = {size}: must be at most {most}, the number "
            "of agents"
        )
