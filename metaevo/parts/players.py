"""Players of matrix games by name (`opponent.names: lola`).

A player is hand-written (`purerl.opponents`), the user's own (`my_players.py:Momentum`,
`my_package.players:Momentum`), or a **meta-policy**: a learned player, which chooses its next
policy from the policies of both players. A meta-policy is an entry of the zoo or the result of a
run of opponent shaping.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, failure, show
from metaevo.config.plain import PlainDict
from metaevo.parts import saved
from metaevo.parts.part import LEARNED
from purerl import custom, opponents
from purerl.games import LOGITS, Game
from purerl.opponents import Player

SETTING = "opponent.names"
SETTINGS = SETTING, "evaluation.opponents"
"""Settings that name players."""
ZERO_DETERMINANT = "zero_determinant"
NAMES = (*opponents.LEARNING, *opponents.FIXED, ZERO_DETERMINANT)
"""Players that are neither learned nor the user's own."""

FEW_ROWS = 32
"""Rows of a matrix up to which its product with a vector is written out."""

Weights = PlainDict
"""Meta-parameters of a meta-policy."""


def init_weights(key: jax.Array, hidden: int) -> Weights:
    """Draw a meta-policy, 10 -> hidden tanh -> 5, that cooperates with probability 1/2."""
    kernel = jax.random.normal(key, (2 * LOGITS, hidden)) / np.sqrt(2 * LOGITS)
    return {
        "hidden": {"kernel": kernel, "bias": jnp.zeros(hidden)},
        "out": {"kernel": jnp.zeros((hidden, LOGITS)), "bias": jnp.zeros(LOGITS)},
    }


def next_policy(weights: Weights, own: jax.Array, other: jax.Array) -> jax.Array:
    """Return the next policy [5] of a meta-policy, from the logits [5] of both players."""
    seen = jax.nn.sigmoid(jnp.concatenate([own, other]))
    hidden, out = weights["hidden"], weights["out"]
    features = jnp.tanh(_product(seen, hidden["kernel"]) + hidden["bias"])
    return _product(features, out["kernel"]) + out["bias"]


def _product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return x @ kernel; as a sum of a few rows, which halves the time of a meta-episode."""
    if len(x) > FEW_ROWS:
        return x @ kernel
    return sum((a * row for a, row in zip(x, kernel, strict=True)), jnp.zeros(kernel.shape[1]))


def shaper(weights: Weights) -> Player:
    """Return the player with a meta-policy."""
    return opponents.stateless(lambda game, rate, own, other: next_policy(weights, own, other))


def recognises(about: Any) -> bool:
    """Return whether saved meta-parameters are a meta-policy, from their metadata."""
    hidden = about.get("hidden") if isinstance(about, dict) else None
    return isinstance(hidden, int) and 0 < hidden <= 2**20


ALLOWED = (
    f"{', '.join(NAMES)}, a player of your own (my_players.py:Momentum), the directory of a run "
    "that evolved a meta-policy, or zoo:NAME (metaevo zoo lists them)"
)


def load(name: str, run_path: Path | None = None) -> Weights:
    """Return a meta-policy of the zoo or of a run of opponent shaping, or its copy in a run.

    Raises:
        ConfigError: if there is no such meta-policy, or it is damaged.
    """
    copy = None if run_path is None else copy_of(run_path, name)
    try:
        found, about = saved.load_other(
            name, copy, noun="meta-policy", allowed=ALLOWED, recognises=recognises
        )
    except ConfigError as error:
        raise ConfigError(f"{show(name)}: {error}") from None
    fits = jax.eval_shape(lambda key: init_weights(key, about["hidden"]), jax.random.key(0))
    if jax.tree.map(np.shape, found) != jax.tree.map(np.shape, fits):
        raise ConfigError(f"{show(name)}: its meta-policy is damaged")
    weights: Weights = jax.tree.map(jnp.asarray, found)
    return weights


def function(name: str) -> tuple[Callable[..., jax.Array], Weights]:
    """Return a meta-policy for `purerl.games`: `next_policy`, and its weights."""
    return next_policy, load(name)


def copy_of(run_path: Path, name: str) -> Path:
    """Return where a run keeps a meta-policy that it meets, laid out as a run."""
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:12]
    return run_path / "opponents" / digest


@dataclass(frozen=True)
class Opponent:
    """A player by its name."""

    name: str
    """name in the settings"""
    player: Player
    source: bytes | None = None
    """source code of a player of the user's own"""

    @property
    def learns(self) -> bool:
        """Whether our choices may change its choices."""
        return self.name not in (*opponents.FIXED, ZERO_DETERMINANT)

    @property
    def has_rate(self) -> bool:
        """Whether it has a learning rate."""
        return self.name in opponents.LEARNING or self.source is not None

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.name if self.source is None else self.name.rpartition(":")[2]


def find(
    names: Sequence[str],
    key: str,
    game: Game,
    run_path: Path | None = None,
) -> list[Opponent]:
    """Return players by their names, see `ALLOWED`.

    Args:
        names: of the players.
        key: of the setting, for error messages.
        game: from our point of view.
        run_path: an existing run with copies of its players.

    Raises:
        ConfigError: if a player is unknown, named twice, or cannot play this game.
    """
    found: list[Opponent] = []
    for name in names:
        if custom.is_custom(name):
            found.append(_load_own(key, name))
            continue
        try:
            found.append(Opponent(name, _player(name, game, run_path)))
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from None
    labels = [each.label for each in found]
    for each in found:
        if labels.count(each.label) > 1:
            raise ConfigError(f"{key}: {show(each.label)} is named twice")
        if each.source is not None and each.label in (*NAMES, LEARNED):
            raise ConfigError(f"{key}: {each.name}: {each.label} is another player; rename it")
    return found


def _player(name: str, game: Game, run_path: Path | None) -> Player:
    if name in opponents.LEARNING:
        if len(set(game.other)) == 1:
            raise ConfigError(
                f"{name} has no gradient to follow: game.opponent_payoffs are all the same"
            )
        return opponents.LEARNING[name]
    if name in opponents.FIXED:
        return opponents.fixed(opponents.FIXED[name])
    if name == ZERO_DETERMINANT:
        extortion = opponents.extortionate(game.swapped)
        if extortion is None:
            raise ConfigError(f"{name}: no strategy extorts in this game")
        return opponents.fixed(extortion)
    return shaper(load(name, run_path))


def _load_own(key: str, name: str) -> Opponent:
    """Execute the module of a player of the user's own, and return the player.

    Raises:
        ConfigError: if it is no player.
    """
    try:
        found, source = custom.load(name), custom.source(name)
        if isinstance(found, type) or not hasattr(found, "step"):
            found = found()
        player = Player(found.init, found.step)
        # its state and its policy must keep their structure, shape and dtype
        game = Game.of([[-1, -3], [0, -2]], None, 0.9)
        start = jax.ShapeDtypeStruct((2, LOGITS), jnp.float32)
        jax.eval_shape(lambda start: opponents.play(game, player, player, start, steps=2), start)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(
            f"{key}: {show(name)}: must be a player with `init(policy)` and `step(game, rate, own, "
            "other, state)`, see purerl.opponents",
            error,
        ) from error
    return Opponent(name, player, source)


def keep(run_path: Path, met: Sequence[Opponent]) -> None:
    """Copy meta-policies into the run."""
    for each in met:
        if each.source is None and each.name not in NAMES:
            saved.keep(each.name, copy_of(run_path, each.name))
