"""The game between learners: a meta-episode, who may take part in it, and the meta-policy.

M-FOS (Lu et al. 2022) as far as matrix games go. A meta-step is a joint move: both players choose
their next policy from the same pair of policies, and then earn the value of the game between the
two new ones.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, show
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from purerl import opponents
from purerl.games import LOGITS, Game, values
from purerl.opponents import Move

SELF, ZERO_DETERMINANT = "self", "zero_determinant"
KNOWN = (*opponents.LEARNING, *opponents.FIXED, ZERO_DETERMINANT, SELF)
"""Opponents by name; a directory of a run is another shaper."""

FEW_ROWS = 32
"""Of a matrix whose product with a vector is written out."""

Weights = dict[str, Any]


class Episode(NamedTuple):
    """What happened in a meta-episode."""

    own: jax.Array
    """[steps] what we earned in each meta-step"""
    other: jax.Array
    """[steps] what the opponent earned"""
    policies: jax.Array
    """[steps, 2, 5] logits of both, each as its player sees the game"""


def init_weights(key: jax.Array, hidden: int) -> Weights:
    """Draw a meta-policy, 10 -> hidden tanh -> 5, that cooperates with probability 1/2."""
    kernel = jax.random.normal(key, (2 * LOGITS, hidden)) / np.sqrt(2 * LOGITS)
    return {
        "hidden": {"kernel": kernel, "bias": jnp.zeros(hidden)},
        "out": {"kernel": jnp.zeros((hidden, LOGITS)), "bias": jnp.zeros(LOGITS)},
    }


def shaper(weights: Weights) -> Move:
    """Return the move of a meta-policy: from the ten probabilities to its next policy."""

    def move(
        game: Game, rate: Any, own: jax.Array, other: jax.Array, first: jax.Array
    ) -> jax.Array:
        del game, rate, first
        seen = jax.nn.sigmoid(jnp.concatenate([own, other]))
        hidden, out = weights["hidden"], weights["out"]
        features = jnp.tanh(_product(seen, hidden["kernel"]) + hidden["bias"])
        return _product(features, out["kernel"]) + out["bias"]

    return move


def _product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x @ kernel, where every candidate has a kernel of its own.

    A sum of a few rows is one loop: a whole meta-episode with 16 units takes 0.42 of its time with
    a reduction, and 0.6 of that with a product. Of many rows it is too much code, and no faster.
    """
    if len(x) > FEW_ROWS:
        return x @ kernel
    return sum((a * row for a, row in zip(x, kernel, strict=True)), jnp.zeros(kernel.shape[1]))


def play(
    game: Game,
    ours: Callable[..., jax.Array],
    theirs: Callable[..., jax.Array],
    rates: tuple[Any, Any],
    start: jax.Array,
    steps: int,
) -> Episode:
    """Play a meta-episode.

    Args:
        game: as we see it.
        ours: our move.
        theirs: the opponent's.
        rates: learning rates of both.
        start: [2, 5] the logits with which both begin.
        steps: joint moves.
    """
    first_own, first_other = start

    def step(state, _):
        own, other = state
        state = (
            ours(game, rates[0], own, other, first_own),
            theirs(game.swapped, rates[1], other, own, first_other),
        )
        return state, (*values(game, *state), jnp.stack(state))

    _, found = jax.lax.scan(step, (first_own, first_other), length=steps)
    return Episode(*found)


def start_of(key: jax.Array) -> jax.Array:
    """Draw the policies with which both begin: [2, 5] from N(0, 1)."""
    return jax.random.normal(key, (2, LOGITS))


@dataclass(frozen=True)
class Opponent:
    """An opponent by its name."""

    name: str
    move: Move | None
    """None for the one that is evolved, which changes all the time"""

    @property
    def learns(self) -> bool:
        """Whether what we do changes what it does."""
        return self.name not in (*opponents.FIXED, ZERO_DETERMINANT)


def find(names: Sequence[str], key: str, game: Game, run_path: Path | None) -> list[Opponent]:
    """Return opponents by their names.

    Args:
        names: of `KNOWN`, or directories of runs that evolved a meta-policy.
        key: of the setting, for messages.
        game: as we see it.
        run_path: an existing run, whose copies of other runs' meta-policies are used.

    Raises:
        ConfigError: for an unknown one, or one that the game does not have.
    """
    if double := [name for name in names if list(names).count(name) > 1]:
        raise ConfigError(f"{key}: {show(double[0])} is named twice")
    return [Opponent(name, _move(name, key, game, run_path)) for name in names]


def _move(name: str, key: str, game: Game, run_path: Path | None) -> Move | None:
    if name == SELF:
        return None
    if name in opponents.LEARNING:
        if len(set(game.other)) == 1:
            raise ConfigError(
                f"{key}: {name} has no gradient to follow: game.opponent_payoffs are all the same"
            )
        return opponents.LEARNING[name]
    if name in opponents.FIXED:
        return opponents.fixed(opponents.FIXED[name])
    if name == ZERO_DETERMINANT:
        found = opponents.extortionate(game.swapped)
        if found is None:
            raise ConfigError(f"{key}: {name}: nobody can extort in this game")
        return opponents.fixed(found)
    directory = RunDirectory(Path(name))
    if run_path is not None and os.path.isdir(copy_of(run_path, name).path):
        directory = copy_of(run_path, name)
    if not os.path.isdir(directory.path):  # of a Path, a name that is too long raises
        raise ConfigError(
            f"{key}: {show(name)} must be one of {', '.join(KNOWN)}, or the directory of a run "
            "that evolved a meta-policy"
        )
    return shaper(load_weights(directory))


def keep(run_path: Path, names: Sequence[str]) -> None:
    """Copy the meta-policies of other runs into the run that meets them: it needs no other one."""
    for name in names:
        copy = copy_of(run_path, name)
        if name not in KNOWN and not copy.meta_params.exists():
            source = RunDirectory(Path(name))
            checkpoint.save_tree(copy.meta_params, *checkpoint.load_tree(source.meta_params))


def copy_of(run_path: Path, name: str) -> RunDirectory:
    """Return where a run keeps the meta-policy of another one, laid out as a run."""
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:12]
    return RunDirectory(run_path / "opponents" / digest)


def load_weights(directory: RunDirectory) -> Weights:
    """Return the meta-policy that a run has evolved.

    Raises:
        ConfigError: if it has none, or a damaged one.
    """
    if not os.path.isdir(directory.meta_params):
        raise ConfigError(f"{directory.path} holds no meta-policy (no meta_params/ in it)")
    found, about = checkpoint.load_tree(directory.meta_params)
    hidden = about.get("hidden") if isinstance(about, Mapping) else None
    if not isinstance(hidden, int) or not 0 < hidden <= 2**20:
        raise ConfigError(f"{directory.path} holds no meta-policy: something else was evolved")
    expected = jax.eval_shape(lambda key: init_weights(key, hidden), jax.random.key(0))
    if jax.tree.map(np.shape, found) != jax.tree.map(lambda each: each.shape, expected):
        raise ConfigError(f"{directory.path}: its meta-policy is damaged")
    weights: Weights = jax.tree.map(jnp.asarray, found)
    return weights
