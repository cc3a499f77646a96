"""Round robin on fresh starts, the comparison at the end of opponent shaping.

The contenders are the evolved meta-policies and hand-written players. They meet the opponents of
the evolution, the same ones at other learning rates, and new ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.judging.scores import Scores
from metaevo.parts import players
from metaevo.parts.part import LEARNED
from metaevo.parts.players import Opponent, Weights
from metaevo.studies.games.comparison import Format, GameResult, interquartile_mean
from metaevo.studies.games.settings import ShapingSettings
from purerl import opponents
from purerl.games import LOGITS
from purerl.opponents import Player

RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate factors on the learning rate of evolution, for contenders that learn."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Factors and levels of the candidate zero-determinant strategies."""
UNUSED = np.zeros(LOGITS, np.float32)

ROUND_ROBIN = Format(
    {
        "own": "Round robin: payoffs of the contenders",
        "other": "Round robin: payoffs of the opponents",
    },
    "Payoffs a step, interquartile means over fresh meta-episodes with 95% intervals. Contenders "
    "play our part; the opponents of evolution come first. Each hand-written contender is the best "
    "of its variants (learning rates, zero-determinant lines) on other meta-episodes.",
)


class Entrant(NamedTuple):
    """A player of a tournament, on either side, as arrays."""

    place: Any
    """[] index of the player; the last one always plays `policy`"""
    policy: Any = UNUSED
    """[5] logits"""
    rate: Any = 1.0
    """[] learning rate"""


class Tournament:
    """Meta-episodes between any two players, compiled once."""

    def __init__(
        self,
        settings: ShapingSettings,
        learned: Mapping[str, Weights],
        met: Sequence[Opponent],
        others: Sequence[Opponent],
    ):
        """Bind the players.

        The first of the `learned` meta-policies is also an opponent. The opponents that evolution
        has `met` decide the verdict.
        """
        self.settings, self.game = settings, settings.game.game
        self.rate, self.steps = settings.opponent.learning_rate, settings.game.steps
        self.learned, self.met, self.others = list(learned), met, others
        evolved = {
            name: players.shaper(jax.tree.map(jnp.asarray, weights))
            for name, weights in learned.items()
        }
        known = {each.label: each.player for each in (*met, *others)}
        own = {each.label: known[each.label] for each in (*met, *others) if each.source is not None}
        self.learners = {"naive": opponents.naive, "lola": opponents.lola, **own}
        self.players = evolved | self.learners | known | {LEARNED: evolved[self.learned[0]]}
        self._play = jax.jit(jax.vmap(self._meta_episode, in_axes=(None, None, 0)))

    def _meta_episode(self, ours: Entrant, theirs: Entrant, key: jax.Array) -> jax.Array:
        """Return the mean payoffs of both sides [2]."""

        def player(entrant: Entrant) -> Player:
            fixed = opponents.constant(entrant.policy)
            return opponents.one_of([*self.players.values(), fixed], entrant.place)

        start, rates = opponents.draw_start(jax.random.split(key)[0]), (ours.rate, theirs.rate)
        found = opponents.play(
            self.game, player(ours), player(theirs), start, rates=rates, steps=self.steps
        )
        return jnp.stack([jnp.mean(found.own), jnp.mean(found.other)])

    def play(self, ours: Entrant, theirs: Entrant, keys: jax.Array) -> np.ndarray:
        """Return the mean payoffs of both sides [2, keys] in float64."""
        return np.asarray(self._play(ours, theirs, keys), np.float64).T

    def entrant(self, name: str, rate: float = 1.0) -> Entrant:
        """Return a player by its name."""
        return Entrant(list(self.players).index(name), rate=rate)

    def contenders(self) -> dict[str, list[Entrant]]:
        """Return the hand-written contenders: players among which to choose."""

        def fixed(probabilities: Sequence[float] | np.ndarray) -> Entrant:
            return Entrant(len(self.players), opponents.logits(probabilities))

        rates = [factor * self.rate for factor in RATES]
        found = {name: [self.entrant(name, rate) for rate in rates] for name in self.learners}
        found["tit_for_tat"] = [fixed(opponents.FIXED["tit_for_tat"])]
        extorting = [
            fixed(line)
            for factor in FACTORS
            for level in LEVELS
            if (line := opponents.zero_determinant(self.game, factor, level)) is not None
        ]
        return found | ({"zero_determinant": extorting} if extorting else {})

    def opponents(self) -> dict[str, Entrant]:
        """Return the opponents by their names in the table, first the opponents of evolution."""
        found = {each.label: self.entrant(each.label, self.rate) for each in self.met}
        for factor in self.settings.evaluation.learning_rates:
            rate = factor * self.rate
            found |= {
                f"{each.label}, rate {rate:.3g}": self.entrant(each.label, rate)
                for each in self.met
                if each.has_rate
            }
        for label in (*(each.label for each in self.others), LEARNED):
            found.setdefault(label, self.entrant(label, self.rate))
        return found

    def result(self, check_stop: Callable[[], None]) -> GameResult:
        """Choose among the variants of each contender, and play against every opponent."""
        config, seed, columns = self.settings.evaluation, self.settings.run.seed, self.opponents()
        deciding = list(columns.values())[: len(self.met)]
        keys = keys_for(seed, Purpose.TUNING, config.tuning_seeds)
        chosen = {name: self.entrant(name) for name in self.learned}
        played = 0
        for name, candidates in self.contenders().items():
            check_stop()
            merits = [
                np.mean([self.play(entrant, foe, keys)[0] for foe in deciding])
                for entrant in candidates
            ]
            chosen[name] = candidates[int(np.argmax(merits))]
            played += len(candidates) * len(keys) * len(deciding)
        keys = keys_for(seed, Purpose.HELD_OUT, config.seeds)
        scores, cells = {}, {}
        for name, entrant in chosen.items():
            check_stop()
            payoffs = [self.play(entrant, foe, keys) for foe in columns.values()]
            scores[name] = np.stack([own for own, _ in payoffs[: len(deciding)]])
            cells[name] = [
                {"own": interquartile_mean(own), "other": interquartile_mean(other)}
                for own, other in payoffs
            ]
        judged = Scores.of(
            scores,
            dict.fromkeys(self.learned, LEARNED),
            [each.label for each in self.met],
            frames=self.steps * (played + len(chosen) * len(columns) * len(keys)),
        )
        return GameResult(judged, list(columns), cells)
