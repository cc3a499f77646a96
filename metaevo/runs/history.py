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
    return History(**checkpoint.load_tree(path)[0]) if path.exists() else None


def record(run: Path, generation: int, meta_params: MetaParams) -> None:
    """Add a point; drop points of the same or a later generation, which a resumed run repeats.

    Only nested dicts, lists and tuples of numeric arrays are recorded.
    """
    new = jax.tree.map(lambda leaf: np.asarray(leaf)[None], jax.device_get(meta_params))
    if sum(leaf.size for leaf in jax.tree.leaves(new)) > LARGEST:
        return
    found = History(np.array([generation]), new)
    if generation and (before := read(run)) is not None:
        kept = np.flatnonzero(before.generations < generation)
        kept = kept[::2] if len(kept) >= MOST else kept
        found = jax.tree.map(lambda old, leaf: np.concatenate([old[kept], leaf]), before, found)
    with contextlib.suppress(TypeError):  # of other containers, and leaves that are no numbers
        checkpoint.save_tree(run / FILE, found._asdict())
