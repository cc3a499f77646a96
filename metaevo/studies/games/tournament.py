"""Round robin on fresh starts, the comparison at the end of opponent shaping.

The contenders are the evolved meta-policies and hand-written players. They meet the opponents of
the evolution, the same opponents at other learning rates, and opponents that the evolution has not
met.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components import players
from metaevo.components.component import LEARNED
from metaevo.components.players import Opponent, Weights
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.studies.games.results import GameResult, Scores, ScoresFormat, interquartile_mean
from metaevo.studies.games.settings import ShapingSettings
from purerl import opponents
from purerl.games import LOGITS
from purerl.types import PyTree

RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate factors on the learning rate of evolution, for contenders that learn."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Factors and levels of the candidate zero-determinant strategies."""
UNUSED = np.zeros(LOGITS, np.float32)

ROUND_ROBIN = ScoresFormat(
    "round_robin",
    "opponents",
    "contenders",
    {
        "own": "Round robin: payoffs of the contenders",
        "other": "Round robin: payoffs of the opponents",
    },
    "Payoffs a step, interquartile means over fresh meta-episodes with 95% intervals. Contenders "
    "play our part; the opponents of evolution come first.",
)


class Entrant(NamedTuple):
    """A player of a tournament, on either side, as arrays."""

    place: Any
    """[] index of the player; the last one always plays `policy`"""
    policy: PyTree = UNUSED
    """[5] logits"""
    rate: Any = 1.0
    """[] learning rate"""


class Variant(NamedTuple):
    """A contender with particular settings."""

    entrant: Entrant
    settings: dict[str, float]


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

        Args:
            settings: settings of the evolution.
            learned: the evolved meta-policies by name; the first one is also an opponent.
            met: the opponents of the evolution, which decide the verdict.
            others: opponents that the evolution has not met.
        """
        self.settings, self.game = settings, settings.game.game
        self.rate = settings.opponent.learning_rate
        self.learned, self.met, self.others = list(learned), met, others
        evolved = {
            name: players.shaper(jax.tree.map(jnp.asarray, weights))
            for name, weights in learned.items()
        }
        known = {each.label: each.player for each in (*met, *others) if each.player is not None}
        own = {each.label: known[each.label] for each in (*met, *others) if each.is_own}
        self.learners = {"naive": opponents.naive, "lola": opponents.lola, **own}
        self.players = evolved | self.learners | known | {LEARNED: evolved[self.learned[0]]}

        def play(our: Entrant, their: Entrant, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
            own, other = (
                opponents.one_of(
                    [*self.players.values(), opponents.constant(each.policy)], each.place
                )
                for each in (our, their)
            )

            def episode(key):
                start = opponents.draw_start(jax.random.split(key)[0])
                rates, steps = (our.rate, their.rate), settings.game.steps
                found = opponents.play(self.game, own, other, start, rates=rates, steps=steps)
                return jnp.mean(found.own), jnp.mean(found.other)

            found: tuple[jax.Array, jax.Array] = jax.vmap(episode)(keys)
            return found

        self._play = jax.jit(play)

    def play(self, our: Entrant, their: Entrant, keys: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean payoffs of both sides, each [keys], in float64."""
        own, other = self._play(our, their, keys)
        return np.asarray(own, np.float64), np.asarray(other, np.float64)

    def entrant(self, name: str, rate: float) -> Entrant:
        """Return a player by its name."""
        return Entrant(list(self.players).index(name), rate=rate)

    def contenders(self) -> dict[str, list[Variant]]:
        """Return the hand-written contenders with their variants."""

        def fixed(probabilities: Sequence[float] | np.ndarray, **settings: float) -> Variant:
            policy = opponents.logits(probabilities)
            return Variant(Entrant(len(self.players), policy), settings)

        rates = [factor * self.rate for factor in RATES]
        found = {
            name: [Variant(self.entrant(name, rate), {"learning_rate": rate}) for rate in rates]
            for name in self.learners
        }
        found["tit_for_tat"] = [fixed(opponents.FIXED["tit_for_tat"])]
        grid = [(factor, level) for factor in FACTORS for level in LEVELS]
        lines = [(each, opponents.zero_determinant(self.game, *each)) for each in grid]
        extorting = [fixed(line, factor=factor, level=level)
                     for (factor, level), line in lines if line is not None]  # fmt: skip
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
        """Choose among the variants of each contender, and play against every opponent.

        Args:
            check_stop: raises if the run should stop.
        """
        config, seed = self.settings.evaluation, self.settings.run.seed
        steps, columns = self.settings.game.steps, self.opponents()
        deciding = list(columns.values())[: len(self.met)]
        keys = keys_for(seed, Purpose.TUNING, config.tuning_seeds)
        chosen = {name: Variant(self.entrant(name, 1.0), {}) for name in self.learned}
        tuned: dict[str, tuple[Mapping[str, float], int]] = {}
        for name, variants in self.contenders().items():
            check_stop()
            merits = [
                np.mean([self.play(each.entrant, foe, keys)[0] for foe in deciding])
                for each in variants
            ]
            chosen[name] = variants[int(np.argmax(merits))]
            count = len(variants) if len(variants) > 1 else 0
            tuned[name] = chosen[name].settings, count * len(keys) * len(deciding) * steps
        keys = keys_for(seed, Purpose.HELD_OUT, config.seeds)
        scores, cells = {}, {}
        for name, variant in chosen.items():
            check_stop()
            payoffs = [self.play(variant.entrant, each, keys) for each in columns.values()]
            scores[name] = np.stack([own for own, _ in payoffs[: len(deciding)]], axis=-1)
            cells[name] = [
                {"own": interquartile_mean(own), "other": interquartile_mean(other)}
                for own, other in payoffs
            ]
        return GameResult(
            scores,
            self.learned,
            "Each hand-written contender is the best of its variants (learning rates, "
            f"zero-determinant lines) by its mean on {config.tuning_seeds} other meta-episodes.",
            steps * len(columns),
            ROUND_ROBIN.to_plain(Scores(list(columns), cells)),
            tuned,
        )
