"""Meta-parameters at several generations, for the animation of a report.

The host records a point after every block of generations. Beyond `MOST` points every second one is
dropped, and large meta-parameters are not recorded.
"""

import contextlib
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from metaevo.runs import checkpoint
from purerl.types import MetaParams, PyTree

FILE = "history.npz"
MOST = 48
"""most points in a history"""
LARGEST = 20_000
"""most numbers in the meta-parameters"""


class History(NamedTuple):
    """Meta-parameters over the generations."""

    generations: np.ndarray
    """[points] generations done, ascending"""
    meta_params: MetaParams
    """each leaf [points, ...]"""

    def at(self, index: int) -> PyTree:
        """Return the meta-parameters of one point."""
        return jax.tree.map(lambda leaf: leaf[index], self.meta_params)


def read(run: Path) -> History | None:
    """Return the history of a run, if any."""
    path = run / FILE
    if not path.exists():
        return None
    saved, _ = checkpoint.load_tree(path)
    return History(saved["generations"], saved["meta_params"])


def record(run: Path, generation: int, meta_params: MetaParams) -> None:
    """Add a point; drop points of the same or a later generation, which a resumed run repeats.

    Only nested dicts, lists and tuples of numeric arrays are recorded.
    """
    new = jax.tree.map(lambda leaf: np.asarray(leaf)[None], jax.device_get(meta_params))
    leaves = jax.tree.leaves(new)
    numeric = all(np.issubdtype(leaf.dtype, np.number) for leaf in leaves)
    if not numeric or sum(leaf.size for leaf in leaves) > LARGEST:
        return
    generations = np.array([generation])
    before = None if generation == 0 else read(run)
    if before is not None:
        earlier = np.flatnonzero(before.generations < generation)
        if len(earlier) >= MOST:
            earlier = earlier[::2]
        generations = np.concatenate([before.generations[earlier], generations])
        new = jax.tree.map(
            lambda old, leaf: np.concatenate([old[earlier], leaf]), before.meta_params, new
        )
    with contextlib.suppress(TypeError):  # of containers that cannot be saved
        checkpoint.save_tree(run / FILE, {"generations": generations, "meta_params": new})
