"""Trees of arrays, each in one `.npz` file: replaced atomically, verified when read, no pickle.

    save_tree(path, tree), load_tree(path)                nested dicts, lists and tuples
                           load_tree(path, template)      any pytree
    save(folder, 40, tree)                                checkpoints, by index
    record(run, 40, tree), history(run)                   what an evolution found over time

The members of the archive are the leaves under their paths and `metadata`, a JSON text. The comment
at the end of the archive is the SHA-256 of everything before it.
"""

import contextlib
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, PlainDict, files
from purerl.types import PyTree

_DIGEST = hashlib.sha256().digest_size * 2
"""characters of the digest"""
_METADATA, _LEAF = "metadata", "leaf:"
HISTORY = "history.npz"
MOST = 48
"""most points in a history; beyond them, every second one is dropped"""
LARGEST = 20_000
"""most numbers in the meta-parameters of a history"""


class CheckpointError(ConfigError):
    """A saved tree cannot be used; the message is a single line."""


# --- Checkpoints --------------------------------------------------------------------------------


def save(
    folder: Path, index: int, tree: PyTree, *, metadata: PlainDict | None = None, keep: int = 3
) -> None:
    """Save checkpoint `index`; remove those with a larger index, and all but the last `keep`."""
    save_tree(path_of(folder, index), tree, {"index": index, **(metadata or {})})
    found = indices(folder)
    kept = [each for each in found if each <= index][-keep:]
    for old in set(found).difference(kept):
        path_of(folder, old).unlink()


def indices(folder: Path) -> list[int]:
    """Return the indices of the checkpoints in a folder, usable or not, in ascending order."""
    names = [path.stem for path in folder.glob("*.npz")]
    return sorted(int(name) for name in names if name.isdecimal() and name == f"{int(name):06d}")


def path_of(folder: Path, index: int) -> Path:
    """Return the file of a checkpoint."""
    return folder / f"{index:06d}.npz"


# --- Trees --------------------------------------------------------------------------------------


def save_tree(path: Path, tree: PyTree, metadata: PlainDict | None = None) -> None:
    """Save or replace a tree of arrays and typed PRNG keys, which `load_tree` returns.

    Raises:
        TypeError: if a leaf is not an array of numbers.
        OSError: if the disk cannot be written.
    """
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    leaves = {jax.tree_util.keystr(each): leaf for each, leaf in paths}
    if len(leaves) != len(paths):
        raise TypeError("two leaves of the tree have the same path")
    encoded = {key: _encode(key, leaf) for key, leaf in leaves.items()}
    content: PlainDict = {"metadata": metadata or {}}
    content["leaves"] = {key: note for key, (_, note) in encoded.items()}
    with contextlib.suppress(TypeError):  # which needs a template
        content["structure"] = _structure(tree, ())
    # As an archive member, a leaf gets a name that cannot collide with savez's own arguments.
    members: PlainDict = {f"{_LEAF}{key}": array for key, (array, _) in encoded.items()}
    archive = io.BytesIO()
    members[_METADATA] = np.array(json.dumps(content))
    np.savez(archive, **members)
    with seal(archive) as sealed, files.replacing(path) as file:
        file.write(sealed)


def load_tree(
    path: Path, template: PyTree = None, expected: PlainDict | None = None
) -> tuple[Any, PlainDict]:
    """Return a tree that `save_tree` saved, and its metadata.

    Args:
        path: of the file.
        template: arrays or `jax.ShapeDtypeStruct` in the structure of the tree; not needed for
            nested dicts, lists and tuples.
        expected: items that the metadata must have.

    Raises:
        CheckpointError: if the file is missing or damaged, or has another tree or metadata.
    """
    leaves, content = _read(path)
    if template is None:
        try:
            return _rebuild(content["structure"], leaves), content["metadata"]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path}: its structure is damaged: {error!r}") from None
    for key, value in (expected or {}).items():
        if (found := content["metadata"].get(key)) != value:
            found = f"{key} is {found!r}, not {value!r}"
            raise CheckpointError(f"{path} is not usable: it belongs to another run: {found}")
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    wanted = {jax.tree_util.keystr(each): _shape_and_dtype(leaf) for each, leaf in paths}
    if different := sorted(wanted.keys() ^ leaves.keys()):
        raise CheckpointError(f"{path} is not usable: other leaves, such as {different[0]}")
    for key, want in wanted.items():
        if (found := _shape_and_dtype(leaves[key])) != want:
            raise CheckpointError(f"{path} is not usable: {key} is {found}, not {want}")
    tree = jax.tree_util.tree_unflatten(structure, [leaves[key] for key in wanted])
    return tree, content["metadata"]


def check_tree(tree: PyTree) -> None:
    """Raise `TypeError` unless a tree of arrays, or of their shapes, loads without a template."""
    _structure(tree, ())


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


# --- The history of an evolution ----------------------------------------------------------------


class History(NamedTuple):
    """Meta-parameters over the generations, for the film of a report."""

    generations: np.ndarray
    """[points] generations done, ascending"""
    meta_params: PyTree
    """each leaf [points, ...]"""

    def at(self, index: int) -> PyTree:
        """Return the meta-parameters of one point."""
        return jax.tree.map(lambda leaf: leaf[index], self.meta_params)


def history(run: Path) -> History | None:
    """Return the history in a run's directory, if any."""
    path = run / HISTORY
    return History(**load_tree(path)[0]) if path.exists() else None


def record(run: Path, generation: int, meta_params: PyTree) -> None:
    """Add a point, unless it is large; drop later ones, which a resumed run repeats."""
    new = jax.tree.map(lambda leaf: np.asarray(leaf)[None], jax.device_get(meta_params))
    if sum(leaf.size for leaf in jax.tree.leaves(new)) > LARGEST:
        return
    found = History(np.array([generation]), new)
    if generation and (before := history(run)) is not None:
        kept = np.flatnonzero(before.generations < generation)
        kept = kept[::2] if len(kept) >= MOST else kept
        found = jax.tree.map(lambda old, leaf: np.concatenate([old[kept], leaf]), before, found)
    save_tree(run / HISTORY, found._asdict())


# --- Files --------------------------------------------------------------------------------------


def _shape_and_dtype(leaf: PyTree) -> str:
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return f"{dtype}{list(np.shape(leaf))}"


def _encode(key: str, leaf: PyTree) -> tuple[np.ndarray, dict[str, str]]:
    """Convert a leaf to an array for a .npy file, with a note for `_decode`."""
    if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
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


def seal(archive: io.BytesIO) -> memoryview:
    """Append the digest to an archive; return its content."""
    with zipfile.ZipFile(archive, "a") as file:
        file.comment = bytes(_DIGEST)
    sealed = archive.getbuffer()
    sealed[-_DIGEST:] = hashlib.sha256(sealed[:-_DIGEST]).hexdigest().encode()
    return sealed


def _read(path: Path) -> tuple[PlainDict, PlainDict]:
    """Return the leaves and the content of the metadata, both verified."""
    try:
        with open(path, "rb") as file:
            sealed = memoryview(file.read())
        if hashlib.sha256(sealed[:-_DIGEST]).hexdigest().encode() != sealed[-_DIGEST:]:
            raise ValueError("it is cut off or damaged, or of an earlier version")
        with np.load(io.BytesIO(sealed), allow_pickle=False) as archive:
            if any(each.compress_size < each.file_size for each in archive.zip.infolist()):
                raise ValueError("it is compressed")
            members = {name: archive[name] for name in archive.files}
        content = files.parse_json(str(members.pop(_METADATA)), "metadata")
        arrays = {name.removeprefix(_LEAF): array for name, array in members.items()}
        notes = content["leaves"]
        if notes.keys() != arrays.keys() or not isinstance(content["metadata"], dict):
            raise ValueError("its leaves or its metadata are damaged")
        return {key: _decode(array, notes[key]) for key, array in arrays.items()}, content
    except Exception as error:  # a forged file can raise anything in these readers
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CheckpointError(f"{path} is not usable: {reason or repr(error)}") from None
