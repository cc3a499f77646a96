"""What only a resumed run needs: the same settings, and the state from which it continues."""

import os
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path

from metaevo.config import ConfigError, PlainDict, files
from metaevo.config.documentation import changed_keys
from metaevo.runs.checkpoint import CheckpointError, indices, load_tree, path_of
from metaevo.runs.run_directory import RECORDS, RunDirectory
from purerl.types import PyTree

HARMLESS = "evaluation.", "run.keep_checkpoints", "run.mlflow", "run.wandb"
"""Prefixes of the settings that every resumed run may change."""
_SHOWN = 5
"""most changed settings in an error message"""


def check_same(saved: PlainDict, settings: PlainDict, harmless: Sequence[str]) -> list[str]:
    """Return the settings of a resumed run that differ from the saved ones.

    Raises:
        ConfigError: naming those that are not harmless.
    """
    changed = changed_keys(saved, settings)
    changes = [
        f"{key}: {old!r} -> {new!r}"
        for key, (old, new) in changed.items()
        if not key.startswith((*HARMLESS, *harmless))
    ]
    if changes:
        listed = ", ".join(changes[:_SHOWN]) + (", ..." if len(changes) > _SHOWN else "")
        raise ConfigError(f"cannot resume with other settings ({listed}); start a new run")
    return list(changed)


def newest(
    folder: Path,
    template: PyTree,
    *,
    expected: PlainDict | None = None,
    recorded: bytes | None = None,
) -> tuple[PyTree, PlainDict]:
    """Return the newest usable checkpoint and its metadata; warn about the others.

    If the content of metrics.jsonl is given, `recorded`, a checkpoint is usable if it begins with
    all records before it.

    Raises:
        CheckpointError: if no checkpoint is usable, see `load_tree`.
    """
    found = indices(folder)
    for index in reversed(found):
        path = path_of(folder, index)
        try:
            tree, metadata = load_tree(path, template, {"index": index, **(expected or {})})
            size, digest = metadata.get(RECORDS, (0, None))
            if recorded is None or zlib.crc32(recorded[:size]) == digest:
                return tree, metadata
            raise CheckpointError(f"{path} is not usable: metrics.jsonl lacks records before it")
        except CheckpointError as error:
            warnings.warn(str(error), stacklevel=2)
    raise CheckpointError(f"none of the {len(found)} checkpoints in {folder} is usable")


def restore(
    directory: RunDirectory, run_id: str, template: PyTree
) -> tuple[PyTree, int, float] | None:
    """Return the state from which a resumed run continues, see `Run.restore`."""
    recorded = directory.sync()
    if not recorded and not indices(directory.checkpoints):
        return None
    expected = {"run_id": run_id}
    tree, about = newest(directory.checkpoints, template, expected=expected, recorded=recorded)
    if recorded:
        os.truncate(directory.metrics_path, about[RECORDS][0])
    forget_end(directory)
    return tree, about["index"], float(about["seconds"])


def forget_end(directory: RunDirectory) -> None:
    """Remove the report and the evaluation of an earlier end, because the run continues."""
    if kept := list(directory.lines()):
        with files.replacing(directory.metrics_path) as file:
            file.writelines(line for line, record in kept if record["kind"] != "evaluation")
    directory.report_path.unlink(missing_ok=True)
    directory.evaluation_path.unlink(missing_ok=True)
