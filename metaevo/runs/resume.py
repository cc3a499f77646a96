"""What only a resumed run needs: the same settings, and the state from which it continues."""

import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from metaevo.config import ConfigError, PlainDict, files, from_dict, to_dict
from metaevo.config.documentation import changed_keys
from metaevo.runs.checkpoint import CheckpointError, indices, load_tree, path_of
from metaevo.runs.run_directory import RunDirectory
from purerl.types import PyTree

if TYPE_CHECKING:
    from metaevo.runs.run import Run

S = TypeVar("S")
_SHOWN = 5
"""most changed settings in an error message"""


def check_same(saved: PlainDict, settings: S, harmless: Sequence[str]) -> S:
    """Return the saved settings of a resumed run.

    Raises:
        ConfigError: naming the settings that differ now and do not begin with a `harmless` prefix.
    """
    changes = [
        f"{key}: {old!r} -> {new!r}"
        for key, (old, new) in changed_keys(saved, to_dict(settings)).items()
        if not key.startswith(tuple(harmless))
    ]
    if changes:
        listed = ", ".join(changes[:_SHOWN]) + (", ..." if len(changes) > _SHOWN else "")
        raise ConfigError(f"cannot resume with other settings ({listed}); start a new run")
    return from_dict(type(settings), saved)


def newest(
    folder: Path,
    template: PyTree,
    *,
    expected: PlainDict | None = None,
    among: Collection[int] | None = None,
) -> tuple[PyTree, PlainDict]:
    """Return the newest usable checkpoint, `among` some, and its metadata; warn about others.

    Raises:
        CheckpointError: if no checkpoint is usable, see `load_tree`.
    """
    found = [each for each in indices(folder) if among is None or each in among]
    if not found:
        raise CheckpointError(f"there is no checkpoint in {folder}")
    for index in reversed(found):
        try:
            return load_tree(path_of(folder, index), template, {"index": index, **(expected or {})})
        except CheckpointError as error:
            warnings.warn(str(error), stacklevel=2)
    raise CheckpointError(f"none of the {len(found)} checkpoints in {folder} is usable")


def restore(
    run: "Run[Any]", template: PyTree, logged: Callable[[int], Iterable[int]] = range
) -> tuple[PyTree, int, float] | None:
    """Return the state from which a resumed run continues, and drop the records after it.

    A checkpoint is passed over if metrics.jsonl lacks records before it.

    Args:
        run: new or resumed.
        template: structure, shapes and dtypes of the saved tree.
        logged: maps the index of a checkpoint to the indices of all records before it.

    Returns:
        what `Run.save` got: the tree, its index and the seconds; None if the run is new, or was
        killed before its first checkpoint.
    """
    if run.saved is None:
        return None
    directory, kind = run.directory, run.kind.record
    found = [record[kind] for record in directory.read_metrics(kind)]
    before = {index: list(logged(index)) for index in indices(directory.checkpoints)}
    if not before and not found:
        return None
    covered = [index for index, records in before.items() if found[: len(records)] == records]
    if len(covered) < len(before):
        text = f"lacks records of the kind {kind}; going back to an earlier checkpoint"
        print(f"{directory.metrics_path}: {text}", file=sys.stderr)
    expected = {"run_id": run.resolved["run_id"]}
    tree, metadata = newest(directory.checkpoints, template, expected=expected, among=covered)
    truncate(directory, kind, len(before[metadata["index"]]))
    forget_end(directory)
    return tree, metadata["index"], float(metadata["seconds"])


def forget_end(directory: RunDirectory) -> None:
    """Remove the report and the evaluation of an earlier end, because the run continues."""
    truncate(directory, "evaluation", 0)
    directory.report_path.unlink(missing_ok=True)
    directory.evaluation_path.unlink(missing_ok=True)


def truncate(directory: RunDirectory, kind: str, count: int) -> None:
    """Keep only the first `count` records of `kind`; a resumed run logs the rest again."""
    if not os.path.lexists(directory.metrics_path):
        return
    left = count
    with files.replacing(directory.metrics_path) as file:
        for line, record in directory.lines():
            left -= record["kind"] == kind
            if record["kind"] != kind or left >= 0:
                file.write(line)
