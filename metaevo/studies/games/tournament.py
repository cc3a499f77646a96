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
from metaevo.components.players import SELF, Opponent, Weights
from metaevo.config.plain import PlainMapping
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.page import Table
from metaevo.studies.games.results import GameResult, Meetings, interquartile_mean
from metaevo.studies.games.settings import ShapingSettings
from purerl import opponents
from purerl.games import LOGITS
from purerl.types import PyTree

RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate factors on the learning rate of evolution, for contenders that learn."""
FACTORS, LEVELS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0), (0.0, 0.25, 0.5, 0.75, 1.0)
"""Factors and levels of the candidate zero-determinant strategies."""
UNUSED = np.zeros(LOGITS, np.float32)

KEYS = "round_robin", "opponents", "contenders"
"""Names of the round robin in evaluation.json."""
NOTE = (
    "Payoffs a step, interquartile means over fresh meta-episodes with 95% intervals. Contenders "
    "play our part; the opponents of evolution come first."
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
        self, settings: ShapingSettings, learned: Mapping[str, Weights], met: Sequence[Opponent]
    ):
        """Bind the players.

        Args:
            settings: settings of the evolution.
            learned: the evolved meta-policies by name; the first one is also an opponent.
            met: opponents of the evolution first, then unseen ones.
        """
        self.settings, self.game = settings, settings.game.game
        self.rate = settings.opponent.learning_rate
        evolved = {
            name: players.shaper(jax.tree.map(jnp.asarray, weights))
            for name, weights in learned.items()
        }
        known = {each.label: each.player for each in met if each.player is not None}
        own = {each.label: known[each.label] for each in met if players.is_own(each.name)}
        self.learned = list(evolved)
        self.learners = {"naive": opponents.naive, "lola": opponents.lola, **own}
        ours = evolved | self.learners
        theirs = {LEARNED: evolved[self.learned[0]]}
        theirs |= {each.label: known[each.label] for each in met
                   if each.label in known and each.learns}  # fmt: skip
        self._ours, self._theirs = list(ours), list(theirs)

        def play(our: Entrant, their: Entrant, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
            own, other = (
                opponents.one_of([*side.values(), opponents.constant(each.policy)], each.place)
                for side, each in ((ours, our), (theirs, their))
            )

            def episode(key):
                start = opponents.draw_start(jax.random.split(key)[0])
                rates, steps = (our.rate, their.rate), settings.game.steps
                found = opponents.play(self.game, own, other, start, rates=rates, steps=steps)
                return jnp.mean(found.own), jnp.mean(found.other)

            found: tuple[jax.Array, jax.Array] = jax.vmap(episode)(keys)
            return found

        self._play = jax.jit(play)

    def ours(self, name: str, rate: float = 1.0) -> Entrant:
        """Return a contender by its name."""
        return Entrant(self._ours.index(name), rate=rate)

    def theirs(self, opponent: Opponent, factor: float = 1.0) -> Entrant:
        """Return an opponent with a scaled learning rate."""
        if opponent.label in self._theirs:
            return Entrant(self._theirs.index(opponent.label), rate=factor * self.rate)
        assert opponent.player is not None
        unused = jnp.zeros(LOGITS)
        policy, _ = opponent.player.step(self.game.swapped, 1.0, unused, unused, ())
        return Entrant(len(self._theirs), np.asarray(policy), factor * self.rate)

    def play(self, our: Entrant, their: Entrant, keys: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean payoffs of both sides, each [keys], in float64."""
        own, other = self._play(our, their, keys)
        return np.asarray(own, np.float64), np.asarray(other, np.float64)

    def contenders(self) -> dict[str, list[Variant]]:
        """Return the hand-written contenders with their variants."""

        def fixed(probabilities: Sequence[float] | np.ndarray, **settings: float) -> Variant:
            policy = opponents.logits(probabilities)
            return Variant(Entrant(len(self._ours), policy), settings)

        found = {
            name: [
                Variant(self.ours(name, factor * self.rate), {"learning_rate": factor * self.rate})
                for factor in RATES
            ]
            for name in self.learners
        }
        found["tit_for_tat"] = [fixed(opponents.FIXED["tit_for_tat"])]
        grid = [(factor, level) for factor in FACTORS for level in LEVELS]
        lines = [(each, opponents.zero_determinant(self.game, *each)) for each in grid]
        extorting = [fixed(line, factor=factor, level=level)
                     for (factor, level), line in lines if line is not None]  # fmt: skip
        return found | ({"zero_determinant": extorting} if extorting else {})

    def columns(self, met: Sequence[Opponent], others: Sequence[Opponent]) -> dict[str, Entrant]:
        """Return the opponents by their names in the table, first the opponents of evolution."""
        columns = {each.label: self.theirs(each) for each in met}
        for factor in self.settings.evaluation.learning_rates:
            for each in met:
                if each.has_rate:
                    name = f"{each.label}, rate {factor * self.rate:.3g}"
                    columns[name] = self.theirs(each, factor)
        new = [each for each in others if each.label not in columns]
        columns |= {each.label: self.theirs(each) for each in new}
        return {**columns, LEARNED: self.theirs(Opponent(SELF, None))}


def judge(
    tournament: Tournament,
    met: Sequence[Opponent],
    others: Sequence[Opponent],
    check_stop: Callable[[], None],
) -> GameResult:
    """Play every contender against every opponent.

    Args:
        tournament: a tournament with all players.
        met: the opponents of the evolution, which decide the verdict.
        others: opponents that the evolution has not met.
        check_stop: raises if the run should stop.
    """
    settings = tournament.settings
    config, seed, steps = settings.evaluation, settings.run.seed, settings.game.steps
    keys = keys_for(seed, Purpose.TUNING, config.tuning_seeds)
    chosen = {name: Variant(tournament.ours(name), {}) for name in tournament.learned}
    tuned: dict[str, tuple[Mapping[str, float], int]] = {}
    for name, variants in tournament.contenders().items():
        check_stop()
        merits = [
            np.mean([tournament.play(each.entrant, tournament.theirs(foe), keys)[0] for foe in met])
            for each in variants
        ]
        chosen[name] = variants[int(np.argmax(merits))]
        count = len(variants) if len(variants) > 1 else 0
        tuned[name] = chosen[name].settings, count * len(keys) * len(met) * steps
    keys = keys_for(seed, Purpose.HELD_OUT, config.seeds)
    columns = tournament.columns(met, others)
    scores, cells = {}, {}
    for name, variant in chosen.items():
        check_stop()
        earned = [tournament.play(variant.entrant, each, keys) for each in columns.values()]
        scores[name] = np.stack([own for own, _ in earned[: len(met)]], axis=-1)
        cells[name] = [
            {"own": interquartile_mean(own), "other": interquartile_mean(other)}
            for own, other in earned
        ]
    return GameResult(
        scores,
        tournament.learned,
        "Each hand-written contender is the best of its variants (learning rates, "
        f"zero-determinant lines) by its mean on {config.tuning_seeds} other meta-episodes.",
        steps * len(columns),
        Meetings(list(columns), cells).to_plain(KEYS),
        tuned,
    )


def tables(result: PlainMapping) -> list[Table]:
    """Return the round robin: the payoffs of the contenders, and of the opponents."""
    robin = Meetings.from_plain(result, KEYS)
    if robin is None:
        return []
    return [
        robin.table("Round robin: what each contender earns", "own", note=NOTE),
        robin.table("Round robin: what opponents earn", "other"),
    ]
