"""Meta-policies by name: whom one can meet beside hand-written opponents (`opponent.names`).

A meta-policy shapes an opponent in a matrix game: from the policies of both players it chooses its
own next one. It is in the zoo, or what a run of opponent shaping has found.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components import zoo
from metaevo.config import ConfigError, show
from metaevo.config.hints import of_value
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from purerl import opponents
from purerl.games import LOGITS, Game
from purerl.opponents import Move

SETTING = "opponent.names"
SELF, ZERO_DETERMINANT = "self", "zero_determinant"
NAMES = (*opponents.LEARNING, *opponents.FIXED, ZERO_DETERMINANT, SELF)
"""Of opponents that are no learned meta-policies."""

FEW_ROWS = 32
"""Of a matrix whose product with a vector is written out."""

Weights = dict[str, Any]


def init_weights(key: jax.Array, hidden: int) -> Weights:
    """Draw a meta-policy, 10 -> hidden tanh -> 5, that cooperates with probability 1/2."""
    kernel = jax.random.normal(key, (2 * LOGITS, hidden)) / np.sqrt(2 * LOGITS)
    return {
        "hidden": {"kernel": kernel, "bias": jnp.zeros(hidden)},
        "out": {"kernel": jnp.zeros((hidden, LOGITS)), "bias": jnp.zeros(LOGITS)},
    }


def next_policy(weights: Weights, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the policy [5] that a meta-policy chooses where both have these (`purerl.games`)."""
    seen = jax.nn.sigmoid(jnp.concatenate([own, other]))
    hidden, out = weights["hidden"], weights["out"]
    features = jnp.tanh(_product(seen, hidden["kernel"]) + hidden["bias"])
    return _product(features, out["kernel"]) + out["bias"]


def shaper(weights: Weights) -> Move:
    """Return the move of a meta-policy."""

    def move(
        game: Game, rate: Any, own: jax.Array, other: jax.Array, first: jax.Array
    ) -> jax.Array:
        del game, rate, first
        return next_policy(weights, own, other)

    return move


def _product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x @ kernel, where every candidate has a kernel of its own.

    A sum of a few rows is one loop: a whole meta-episode with 16 units takes 0.42 of its time with
    a reduction, and 0.6 of that with a product. Of many rows it is too much code, and no faster.
    """
    if len(x) > FEW_ROWS:
        return x @ kernel
    return sum((a * row for a, row in zip(x, kernel, strict=True)), jnp.zeros(kernel.shape[1]))


def load(name: str, run_path: Path | None = None) -> Weights:
    """Return a meta-policy of the zoo or of a run of opponent shaping.

    Args:
        name: of an entry of the zoo, or a run's directory.
        run_path: an existing run, whose copy is used.

    Raises:
        ConfigError: if it is neither, or damaged.
    """
    path = _folder(name, run_path).meta_params
    if not os.path.isdir(path):
        raise ConfigError(f"{show(name)} holds no meta-policy (no {path.name}/ in it)")
    found, about = checkpoint.load_tree(path)
    if not recognises(about):
        raise ConfigError(f"{show(name)} holds no meta-policy: something else was evolved")
    fits = jax.eval_shape(lambda key: init_weights(key, about["hidden"]), jax.random.key(0))
    if jax.tree.map(np.shape, found) != jax.tree.map(np.shape, fits):
        raise ConfigError(f"{show(name)}: its meta-policy is damaged")
    weights: Weights = jax.tree.map(jnp.asarray, found)
    return weights


def function(name: str) -> tuple[Callable[..., jax.Array], Weights]:
    """Return a meta-policy for `purerl.games`: `next_policy`, and its weights."""
    return next_policy, load(name)


def recognises(about: Any) -> bool:
    """Whether saved meta-parameters are a meta-policy's, from their metadata."""
    hidden = about.get("hidden") if isinstance(about, dict) else None
    return isinstance(hidden, int) and 0 < hidden <= 2**20


def keep(run_path: Path, names: Sequence[str]) -> None:
    """Copy learned meta-policies into the run that meets them: it needs no other one."""
    for name in names:
        copy = copy_of(run_path, name)
        if name not in NAMES and not copy.meta_params.exists():
            checkpoint.save_tree(copy.meta_params, *checkpoint.load_tree(_folder(name).meta_params))


def copy_of(run_path: Path, name: str) -> RunDirectory:
    """Return where a run keeps a meta-policy that it meets, laid out as a run."""
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:12]
    return RunDirectory(run_path / "opponents" / digest)


def _folder(name: str, run_path: Path | None = None) -> RunDirectory:
    if run_path is not None and os.path.isdir(copy_of(run_path, name).path):
        return copy_of(run_path, name)
    if zoo.is_name(name):
        entry = zoo.find(name)
        if entry.card["slot"] != SETTING:
            raise ConfigError(f"{name} fills {entry.card['slot']}: it is no opponent")
        return RunDirectory(entry.path)
    if not os.path.isdir(Path(name)):  # of a Path, a name that is too long raises
        raise ConfigError(
            f"{show(name)} must be one of {', '.join(NAMES)}, the directory of a run that evolved "
            f"a meta-policy, or zoo:NAME (metaevo zoo lists them){of_value(name, NAMES)}"
        )
    return RunDirectory(Path(name))
