"""The comparison at the end of opponent shaping: everybody meets everybody, on fresh keys.

The meta-policy and hand-written contenders each play our part against the opponents of evolution,
against those at other learning rates, and against opponents that evolution has not met.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo import statistics
from metaevo.comparison import comparison
from metaevo.components import shapers
from metaevo.components.component import LEARNED
from metaevo.components.shapers import SELF, Weights
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.numbers import estimate
from metaevo.reports.page import Table
from metaevo.studies.games import meta_game
from metaevo.studies.games.meta_game import Opponent
from metaevo.studies.games.shaping_settings import ShapingSettings
from purerl import opponents
from purerl.games import LOGITS

RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Factors on the learning rate of evolution, among which contenders that learn choose."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Zero-determinant strategies, among which their contender chooses."""
NOBODY = np.zeros(LOGITS, np.float32)


class Player(NamedTuple):
    """Somebody who takes part, on either side; all but its move may be traced."""

    move: Any
    """its place among the moves of a tournament; the last one plays `policy` for ever"""
    policy: Any = NOBODY
    """[5] logits"""
    rate: Any = 1.0


class Choice(NamedTuple):
    """One of a contender's variants."""

    player: Player
    settings: dict[str, float]


class Tournament:
    """Meta-episodes between any two players, compiled once."""

    def __init__(
        self, settings: ShapingSettings, learned: Mapping[str, Weights], met: Sequence[Opponent]
    ):
        """Bind the parts.

        Args:
            settings: of the evolution.
            learned: the meta-policies that were found, by their names; the first one is met, too.
            met: opponents of evolution first, then those that it has not met.
        """
        self.settings, self.game = settings, settings.game.game
        self.rate = settings.opponent.learning_rate
        movers = {
            name: shapers.shaper(jax.tree.map(jnp.asarray, weights))
            for name, weights in learned.items()
        }
        self.learned = list(movers)
        self.moves = {LEARNED: movers[self.learned[0]]}
        self.moves |= {
            each.name: each.move for each in met if each.move is not None and each.learns
        }
        movers |= {"naive": opponents.naive, "lola": opponents.lola}
        ours, theirs = list(movers.values()), list(self.moves.values())
        steps = settings.game.steps

        def run(our: Player, their: Player, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
            def episode(key):
                found = meta_game.play(
                    self.game,
                    _chosen(ours, our),
                    _chosen(theirs, their),
                    (our.rate, their.rate),
                    meta_game.start_of(jax.random.split(key)[0]),
                    steps,
                )
                return jnp.mean(found.own), jnp.mean(found.other)

            found: tuple[jax.Array, jax.Array] = jax.vmap(episode)(keys)
            return found

        self._run = jax.jit(run)
        self._ours = {name: place for place, name in enumerate(movers)}
        self._theirs = {name: place for place, name in enumerate(self.moves)}

    def ours(self, name: str, rate: float = 1.0, policy: np.ndarray = NOBODY) -> Player:
        """Return a player of our part: a mover by its name, or else a policy [5] for ever."""
        return Player(self._ours.get(name, len(self._ours)), policy, rate)

    def theirs(self, opponent: Opponent, factor: float = 1.0) -> Player:
        """Return an opponent."""
        name = LEARNED if opponent.name == SELF else opponent.name
        place = self._theirs.get(name, len(self.moves))
        fixed = NOBODY
        if name not in self.moves and opponent.move is not None:
            nothing = jnp.zeros(LOGITS)
            fixed = np.asarray(opponent.move(self.game.swapped, 1.0, nothing, nothing, nothing))
        return Player(place, fixed, factor * self.rate)

    def play(self, our: Player, their: Player, keys: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return what we and the opponent earned in the mean, each [keys], in float64."""
        own, other = self._run(our, their, keys)
        return np.asarray(own, np.float64), np.asarray(other, np.float64)

    def contenders(self) -> dict[str, list[Choice]]:
        """Return the hand-written contenders with their variants."""

        def fixed(probabilities: Sequence[float] | np.ndarray, **known: float) -> Choice:
            return Choice(self.ours("", policy=opponents.logits(probabilities)), known)

        found = {
            name: [
                Choice(self.ours(name, factor * self.rate), {"learning_rate": factor * self.rate})
                for factor in RATES
            ]
            for name in ("naive", "lola")
        }
        found["tit_for_tat"] = [fixed(opponents.FIXED["tit_for_tat"])]
        grid = [(factor, level) for factor in FACTORS for level in LEVELS]
        lines = [(each, opponents.zero_determinant(self.game, *each)) for each in grid]
        extorting = [fixed(line, factor=factor, level=level)
                     for (factor, level), line in lines if line is not None]  # fmt: skip
        if extorting:
            found["zero_determinant"] = extorting
        return found


def _chosen(moves: Sequence[opponents.Move], player: Player) -> opponents.Move:
    """The move of a player; only that one is computed, as long as it is the same for all keys."""

    def move(game, rate, own, other, first):
        branches: list[Callable[..., jax.Array]] = [
            lambda *policies, each=each: each(game, player.rate, *policies) for each in moves
        ]
        branches.append(lambda *policies: jnp.asarray(player.policy))
        return jax.lax.switch(player.move, branches, own, other, first)

    return move


def compare(
    tournament: Tournament,
    met: Sequence[Opponent],
    others: Sequence[Opponent],
    *,
    evolution_frames: int,
    check_stop: Callable[[], None],
) -> dict[str, Any]:
    """Let everybody meet everybody.

    Args:
        tournament: with all of them.
        met: the opponents of evolution, which decide.
        others: those that evolution has not met.
        evolution_frames: joint moves of evolution.
        check_stop: raises if the run is to stop.

    Returns:
        the content of evaluation.json.
    """
    settings = tournament.settings
    config, seed, steps = settings.evaluation, settings.run.seed, settings.game.steps
    keys = keys_for(seed, Purpose.TUNING, config.tuning_seeds)
    chosen = {name: Choice(tournament.ours(name), {}) for name in tournament.learned}
    tuning = dict.fromkeys(chosen, 0)
    for name, variants in tournament.contenders().items():
        check_stop()
        merits = [
            np.mean([tournament.play(each.player, tournament.theirs(foe), keys)[0] for foe in met])
            for each in variants
        ]
        chosen[name] = variants[int(np.argmax(merits))]
        many = len(variants) if len(variants) > 1 else 0
        tuning[name] = many * len(keys) * len(met) * steps
    keys = keys_for(seed, Purpose.HELD_OUT, config.seeds)
    columns = _columns(tournament, met, others)
    earned: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for name, variant in chosen.items():
        check_stop()
        earned[name] = [tournament.play(variant.player, each, keys) for each in columns.values()]
    scores = {
        name: np.stack([own for own, _ in cells[: len(met)]], axis=-1)
        for name, cells in earned.items()
    }
    return {
        **comparison.summary(
            [
                comparison.Variant(name, name, each.settings, tuning[name])
                for name, each in chosen.items()
            ],
            statistics.fill_missing(scores),
            {name: int(np.sum(~np.isfinite(each))) for name, each in scores.items()},
            tournament.learned,
        ),
        **comparison.UNTUNED,
        "budget": "Each hand-written contender is the best of its variants (learning rates, "
        f"zero-determinant lines) by its mean on {config.tuning_seeds} other meta-episodes.",
        "frames_per_agent": steps * len(columns),
        "evolution_frames": evolution_frames,
        "round_robin": {
            "opponents": list(columns),
            "contenders": {
                name: [{"own": _estimate(own), "other": _estimate(other)} for own, other in cells]
                for name, cells in earned.items()
            },
        },
    }


def _columns(
    tournament: Tournament, met: Sequence[Opponent], others: Sequence[Opponent]
) -> dict[str, Player]:
    """The opponents of the table by their names, those of evolution first."""
    columns = {_label(each.name): tournament.theirs(each) for each in met}
    for factor in tournament.settings.evaluation.learning_rates:
        for each in met:
            if each.name in opponents.LEARNING:
                name = f"{each.name}, rate {factor * tournament.rate:.3g}"
                columns[name] = tournament.theirs(each, factor)
    columns |= {_label(each.name): tournament.theirs(each) for each in others
                if _label(each.name) not in columns}  # fmt: skip
    return {**columns, LEARNED: tournament.theirs(Opponent(SELF, None))}


def _label(name: str) -> str:
    return LEARNED if name == SELF else name


def _estimate(values: np.ndarray) -> list[float]:
    """Interquartile mean and its interval, low and high."""
    summary = statistics.summarise(statistics.fill_missing({0: values})[0])
    return [summary.iqm, *summary.interval]


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Return the round robin: what we earn, and what opponents earn."""
    robin = result.get("round_robin")
    if robin is None:
        return []
    found = []
    for side, heading in (("own", "Round robin: what each contender earns"),
                          ("other", "Round robin: what opponents earn")):  # fmt: skip
        columns = ["opponent", *robin["contenders"]]
        rows = [
            [opponent, *(_cell(*cells[place][side]) for cells in robin["contenders"].values())]
            for place, opponent in enumerate(robin["opponents"])
        ]
        found.append(Table(heading, columns, rows, note=NOTE if side == "own" else ""))
    return found


NOTE = (
    "Payoffs a step, interquartile means over fresh meta-episodes with 95% intervals. Contenders "
    "play our part; the opponents of evolution come first."
)


def _cell(value: float, low: float, high: float) -> str:
    return estimate(value, low, high, decimals=2)
