"""Checkpoints: pytrees of arrays on disk, written atomically and verified when they are read.

A tree is a directory of two files: `state.npz` with the leaves under their paths, and
`metadata.json` with shapes, dtypes, the caller's metadata and a digest of each file. If a tree is
replaced, its leaves get a new file, named in `metadata.json`, so a reader finds the old tree or the
new one. Pickles are not used.
"""

import hashlib
import io
import json
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, files
from metaevo.config.checks import check
from metaevo.config.plain import PlainDict
from metaevo.config.yaml_files import parse_json
from purerl.types import PyTree

_TEMPORARY = ".unfinished-"
_METADATA, _STATE = "metadata.json", "state.npz"
_STATE_NAME = re.compile(r"state(-[0-9a-f]{32})?\.npz")


class CheckpointError(ConfigError):
    """A checkpoint cannot be used; the message is a single line."""


@dataclass(frozen=True)
class Checkpoint:
    """Index, tree and metadata of a restored checkpoint."""

    index: int
    tree: PyTree
    metadata: PlainDict


def save(
    directory: Path, index: int, tree: PyTree, *, metadata: PlainDict | None = None, keep: int = 3
) -> Path:
    """Save a tree of arrays and typed PRNG keys as checkpoint `index`.

    Checkpoints with a larger index are removed, and all but the last `keep`.

    Raises:
        TypeError: if a leaf is not an array of numbers.
        OSError: if the disk cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{index:06d}"
    _write(path, _leaves(tree), {"index": index, "metadata": metadata or {}})
    found = indices(directory)
    kept = [each for each in found if each <= index][-keep:]
    for old in found:
        if old not in kept:
            _remove(directory / f"{old:06d}")
    return path


def indices(directory: Path) -> list[int]:
    """Return the indices of the checkpoints in a folder, usable or not, in ascending order."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        raise files.unreadable(directory, error) from None
    return sorted(int(name) for name in names if name.isdecimal() and name == f"{int(name):06d}")


def restore(
    directory: Path,
    template: PyTree,
    *,
    expected: PlainDict | None = None,
    kind: Any = PlainDict,
    among: Collection[int] | None = None,
) -> Checkpoint:
    """Return the newest usable checkpoint, and warn about newer ones.

    Args:
        directory: folder of the checkpoints.
        template: tree of arrays or `jax.ShapeDtypeStruct` with the required structure.
        expected: items that the saved metadata must have.
        kind: type of the metadata, for `metaevo.config.checks.check`.
        among: indices to consider; all by default.

    Raises:
        CheckpointError: if no checkpoint is usable.
    """
    found = [each for each in indices(directory) if among is None or each in among]
    if not found:
        raise CheckpointError(f"there is no checkpoint in {directory}")
    for index in reversed(found):
        path = directory / f"{index:06d}"
        try:
            wanted = json.loads(json.dumps(expected or {}))
            restored = _restore_one(path, index, template, wanted)
            check(kind, restored.metadata, f"{path} is not usable: metadata.json")
            return restored
        except ConfigError as error:
            warnings.warn(str(error), stacklevel=2)
    raise CheckpointError(f"none of the {len(found)} checkpoints in {directory} is usable")


def save_tree(path: Path, tree: PyTree, metadata: PlainDict | None = None) -> None:
    """Save or replace nested dicts, lists and tuples of arrays, which `load_tree` reads.

    Raises:
        TypeError: if a node or a leaf has another type.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"structure": _structure(tree, ()), "metadata": metadata or {}}
    _write(path, _leaves(tree), content)


def check_tree(tree: PyTree) -> None:
    """Check that `save_tree` can save a tree of arrays, or of their shapes.

    Raises:
        TypeError: if it cannot.
    """
    _structure(tree, ())


def load_tree(path: Path) -> tuple[Any, PlainDict]:
    """Return the tree and the metadata that `save_tree` saved.

    Raises:
        CheckpointError: if they are missing or damaged.
    """
    leaves, content = _read(path)
    try:
        tree, metadata = _rebuild(content["structure"], leaves), content["metadata"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: its structure is damaged: {error!r}") from None
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{path}: its metadata are damaged: not a JSON object")
    return tree, metadata


def _restore_one(path: Path, index: int, template: PyTree, expected: PlainDict) -> Checkpoint:
    leaves, content = _read(path)
    metadata = content.get("metadata")
    if content.get("index") != index or not isinstance(metadata, dict):
        raise CheckpointError(f"{path} is not usable: it is not checkpoint {index}")
    for key, value in expected.items():
        if metadata.get(key) != value:
            found = f"{key} is {metadata.get(key)!r}, not {value!r}"
            raise CheckpointError(f"{path} is not usable: it belongs to another run: {found}")
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    wanted = {jax.tree_util.keystr(each): leaf for each, leaf in paths}
    if different := sorted(wanted.keys() ^ leaves.keys()):
        raise CheckpointError(f"{path} is not usable: other leaves, such as {different[0]}")
    for key, leaf in wanted.items():
        found, want = _shape_and_dtype(leaves[key]), _shape_and_dtype(leaf)
        if found != want:
            raise CheckpointError(f"{path} is not usable: {key} is {found}, not {want}")
    tree = jax.tree_util.tree_unflatten(structure, [leaves[key] for key in wanted])
    return Checkpoint(index, tree, metadata)


# --- Trees and their leaves ---------------------------------------------------------------------


def _leaves(tree: PyTree) -> PlainDict:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in paths}
    if len(leaves) != len(paths):
        raise TypeError("two leaves of the tree have the same path")
    return leaves


def _is_key(leaf: PyTree) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _shape_and_dtype(leaf: PyTree) -> str:
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return f"{dtype}{list(np.shape(leaf))}"


def _encode(key: str, leaf: PyTree) -> tuple[np.ndarray, dict[str, str]]:
    """Convert a leaf to an array for a .npy file, with a note for `_decode`."""
    if _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf)), {"key": str(jax.random.key_impl(leaf))}
    array = np.asarray(leaf)
    if not (array.dtype == bool or jnp.issubdtype(array.dtype, np.number)):
        raise TypeError(f"{key or 'the tree'} is no array of numbers but {type(leaf).__name__}")
    note = {"dtype": str(array.dtype)}
    # NumPy would write bfloat16 and its like as nameless bytes: write them as integers.
    custom = array.dtype.isbuiltin == 2
    return array.view(f"u{array.dtype.itemsize}") if custom else array, note


def _decode(array: np.ndarray, note: dict[str, str]) -> Any:
    if "key" in note:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=note["key"])
    dtype = jnp.dtype(note["dtype"])
    return array.view(dtype) if dtype.isbuiltin == 2 else array


def _structure(tree: PyTree, path: tuple[Any, ...]) -> Any:
    """Return the tree as JSON with the paths of the leaves."""
    if type(tree) is dict:
        if not all(isinstance(key, str) for key in tree):
            raise TypeError(f"the keys of a saved tree must be text: {list(tree)}")
        entry = jax.tree_util.DictKey
        return {"dict": {key: _structure(tree[key], (*path, entry(key))) for key in tree}}
    if type(tree) in (list, tuple):
        items = enumerate(tree)
        nodes = [_structure(each, (*path, jax.tree_util.SequenceKey(i))) for i, each in items]
        return {type(tree).__name__: nodes}
    if tree is None or not jax.tree_util.all_leaves([tree]):
        raise TypeError(f"a saved tree cannot hold {type(tree).__name__}")
    return jax.tree_util.keystr(path)


def _rebuild(node: Any, leaves: PlainDict) -> Any:
    if isinstance(node, str):
        return leaves[node]
    ((kind, content),) = node.items()
    if kind == "dict":
        return {key: _rebuild(each, leaves) for key, each in content.items()}
    return {"list": list, "tuple": tuple}[kind](_rebuild(each, leaves) for each in content)


# --- Files --------------------------------------------------------------------------------------


def _write(path: Path, leaves: PlainDict, content: PlainDict) -> None:
    encoded = {key: _encode(key, leaf) for key, leaf in leaves.items()}
    buffer = io.BytesIO()
    # As an archive member, a leaf gets a name that cannot collide with savez's own arguments.
    members: PlainDict = {f"leaf:{key}": array for key, (array, _) in encoded.items()}
    np.savez(buffer, **members)
    state = buffer.getvalue()
    notes = {
        key: {**note, "shape": list(array.shape), "stored": str(array.dtype)}
        for key, (array, note) in encoded.items()
    }
    content = {**content, "leaves": notes, "sha256": hashlib.sha256(state).hexdigest()}
    content = json.loads(json.dumps(content))  # as it will be read, so that the digest agrees
    for leftover in path.parent.glob(f"{_TEMPORARY}*"):  # of saves that were killed
        _remove(leftover)
    if (path / _METADATA).is_file():
        _replace(path, state, content)
        return
    if os.path.lexists(path):
        _remove(path)
    temporary = path.with_name(f"{_TEMPORARY}{path.name}-{uuid.uuid4().hex}")
    temporary.mkdir()
    try:
        files.write_atomic(temporary / _STATE, state)
        files.write_atomic(temporary / _METADATA, _sealed(content))
        _sync_directory(temporary)
        temporary.rename(path)
        _sync_directory(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(path: Path, state: bytes, content: PlainDict) -> None:
    """Replace the tree in a directory; metadata.json names the new file."""
    name = f"state-{uuid.uuid4().hex}.npz"
    files.write_atomic(path / name, state)
    _sync_directory(path)
    files.write_atomic(path / _METADATA, _sealed({**content, "state": name}))
    _sync_directory(path)
    for old in path.iterdir():
        if old.name not in (name, _METADATA):
            _remove(old)


def _read_files(path: Path) -> tuple[PlainDict, bytes]:
    """Return the content of metadata.json and the bytes of the state that it names."""
    while True:
        metadata = _read_file(path / _METADATA)
        content = _undamaged(metadata)
        name = content.pop("state", _STATE)
        if not isinstance(name, str) or not _STATE_NAME.fullmatch(name):
            raise ValueError("metadata.json names a state with an invalid name")
        try:
            return content, _read_file(path / name)
        except FileNotFoundError:
            if _read_file(path / _METADATA) == metadata:
                raise
            # The tree was replaced meanwhile: read the new one.


def _read_file(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read(path: Path) -> tuple[PlainDict, PlainDict]:
    """Return the leaves and the content of metadata.json, both verified."""
    try:
        content, state = _read_files(path)
        if content["sha256"] != hashlib.sha256(state).hexdigest():
            raise ValueError("state.npz is cut off or damaged")
        with np.load(io.BytesIO(state), allow_pickle=False) as file:
            if any(each.compress_size < each.file_size for each in file.zip.infolist()):
                raise ValueError("state.npz is compressed")
            arrays = {name.removeprefix("leaf:"): file[name] for name in file.files}
        notes = content["leaves"]
        if notes.keys() != arrays.keys():
            raise ValueError("state.npz has other leaves than metadata.json")
        return {key: _decode(array, notes[key]) for key, array in arrays.items()}, content
    except Exception as error:  # a forged file can raise anything in these readers
        reason = str(error) or repr(error)
        if isinstance(error, OSError) and error.filename:
            reason = f"{Path(error.filename).name}: {error.strerror}"
        raise CheckpointError(f"{path} is not usable: {reason}") from None


def _sealed(content: PlainDict) -> bytes:
    """Return metadata.json with its own digest."""
    return json.dumps({**content, "sha256_of_metadata": _digest(content)}, indent=1).encode()


def _undamaged(metadata: bytes) -> PlainDict:
    """Return the content of metadata.json if its digest is right."""
    try:
        content = parse_json(metadata)
        digest = content.pop("sha256_of_metadata")
        if digest == _digest(content):
            return content
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ValueError("metadata.json is cut off or damaged")


def _digest(content: PlainDict) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _remove(path: Path) -> None:
    """Remove a checkpoint or another file with its name."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
