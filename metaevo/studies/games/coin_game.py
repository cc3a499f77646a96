"""Opponent shaping in the Coin Game: a player is evolved against PPO, which learns while they play.

M-FOS (Lu et al. 2022) beyond matrix games: the opponent sees a grid and follows estimates of its
gradient. A candidate plays a meta-episode, in which the opponent learns from scratch.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components.component import LEARNED
from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import game_plots
from metaevo.reports.page import Table
from metaevo.studies.games import coin_players
from metaevo.studies.games.coin_players import Cast, Episode, Weights
from metaevo.studies.games.results import Cell, GameResult, Meetings, mean
from metaevo.studies.games.settings import CoinSettings
from metaevo.studies.games.study import AgentStudy, draw_payoffs
from metaevo.studies.study import subtitle
from metaevo.training.train_learner import Task, working_set

NAIVE = "naive"
"""Name of the contender that learns like the opponent."""
CHUNK = 8
"""Number of meta-episodes of the comparison that are played at once."""
MEASURES = {
    "own": "it earns",
    "other": "the opponent earns",
    "own_coins": "its own coins",
    "opponent_own_coins": "the opponent's own coins",
    "late": "it earns, last quarter",
    "late_other": "the opponent earns, last quarter",
}
"""Measures of a contender, and the headings of their columns."""
KEYS = "coin_game", "opponents", "contenders"
"""Names of the table in evaluation.json."""
NOTE = (
    "Rewards a step over a meta-episode and over its last quarter, and the share of coins of its "
    "own colour among those that a player takes: means over fresh opponents with 95% intervals."
)


class CoinShaping:
    """A `MetaProblem`: play a meta-episode with a candidate."""

    differentiable = False
    """as actions are drawn"""

    def __init__(self, settings: CoinSettings):
        """Bind the parts."""
        self.settings, self.hyperparams = settings, settings.hyperparams
        self.learner = settings.learner(coin_players.shaper(settings.step))
        weights = jax.eval_shape(self.init, jax.random.key(0))
        example = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), weights)
        self.task = Task("the Coin Game", self.learner, settings.env_params(example))
        self.frames = settings.train.num_updates * settings.train.batch_size
        self.working_set_bytes = working_set(self.task, self.hyperparams, None)

    def init(self, key: jax.Array) -> Weights:
        """Draw a meta-policy."""
        config = self.settings.policy
        return coin_players.init_weights(key, config.hidden, config.start)

    def evaluate(self, key: jax.Array, meta_params: Weights) -> Evaluation:
        """Play a meta-episode."""
        params = self.settings.env_params(meta_params)
        found = coin_players.play(self.learner, self.hyperparams, key, params)
        own, opponent = jnp.mean(found.earned, axis=0)
        shares = coin_players.own_share(jnp.sum(found.taken, axis=0))
        metrics = {"opponent": opponent, "own_coins": shares[0], "opponent_own_coins": shares[1]}
        return Evaluation(jnp.where(found.finite, own, jnp.nan), metrics)


class CoinStudy(AgentStudy[CoinShaping]):
    """Conforms to `metaevo.studies.study.Study`."""

    name, make_problem = "coin_game", CoinShaping
    settings: CoinSettings
    captions: Mapping[str, str] = {
        "coins.png": "Rewards a step, and the share of coins of its own colour among those that a "
        "player takes, over the episodes after each of which the opponent learns: means over fresh "
        "opponents; below, two naive learners.",
        "payoffs.png": "Payoffs of both sides over the generations.",
    }

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw payoffs over the generations."""
        del meta_params
        draw_payoffs(figures, "opponents")

    def draw_frame(self, meta_params: Weights, figures: Path) -> None:
        """Draw rewards and coins against a few opponents."""
        shown = self._meta_episodes(jax.tree.map(jnp.asarray, meta_params))
        game_plots.plot_coins({LEARNED: jax.device_get(shown)}, figures / "coins.png")

    @cached_property
    def _meta_episodes(self) -> Callable[[Weights], tuple[jax.Array, jax.Array]]:
        """Mean rewards a step and shares of own coins, [episodes, 2] each; compiled once."""
        agents = self.agents
        keys = keys_for(self.settings.run.seed, Purpose.ILLUSTRATION, CHUNK)

        def play(weights: Weights) -> tuple[jax.Array, jax.Array]:
            params = self.settings.env_params(weights)
            found = jax.vmap(
                lambda key: coin_players.play(agents.learner, agents.hyperparams, key, params)
            )(keys)
            return found.earned.mean(axis=0), coin_players.own_share(found.taken.mean(axis=0))

        return jax.jit(play)

    def judge(
        self, learned: Mapping[str, Weights], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Evaluate meta-policies and other players against fresh opponents."""
        meet = _Meeting(self.settings, learned, check_stop)
        rates = {"as in evolution": 1.0} | {
            f"learning rate x {factor:g}": factor
            for factor in self.settings.evaluation.learning_rates
        }
        contenders = [*learned, NAIVE, *coin_players.HAND_WRITTEN]
        met = {name: [meet(name, factor) for factor in rates.values()] for name in contenders}
        first = {name: episodes[0] for name, episodes in met.items()}
        shown = {
            name: (
                first[name].earned.mean(axis=0),
                coin_players.own_share(first[name].taken.mean(axis=0)),
            )
            for name in (contenders[0], NAIVE)
        }
        game_plots.plot_coins(shown, figures / "coins.png")
        cells = {name: [_measures(each) for each in episodes] for name, episodes in met.items()}
        return GameResult(
            {name: _own(each) for name, each in first.items()},
            list(learned),
            "There is nothing to tune of hand-written players; the naive learner has the "
            "opponent's settings.",
            meet.frames * len(rates),
            Meetings(list(rates), cells).to_plain(KEYS),
        )

    def title(self, generations: int) -> tuple[str, str]:
        """Return the game."""
        return "Shaping PPO in the Coin Game", subtitle(generations)

    def findings(self, meta_params: Weights, result: PlainMapping) -> list[str]:
        """Return the payoffs and coins of both sides against an opponent of evolution."""
        del meta_params
        found = Meetings.from_plain(result, KEYS)
        if found is None:
            return []
        sentences = []
        for name, who in ((result["learned"], "It"), (NAIVE, "A naive learner in its place")):
            cell = {measure: each.value for measure, each in found.cells[name][0].items()}
            sentences.append(
                f"{who} earns {cell['own']:.3f} a step and the opponent {cell['other']:.3f}; of "
                f"the coins that they take {cell['own_coins']:.0%} and "
                f"{cell['opponent_own_coins']:.0%} have their own colour."
            )
        return sentences

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return the measures of both sides, a row for each pair."""
        found = Meetings.from_plain(result, KEYS)
        if found is None:
            return []
        rows = [
            [name, opponent, *(row[place][each].text(3) for each in MEASURES)]
            for place, opponent in enumerate(found.opponents)
            for name, row in found.cells.items()
        ]
        return [Table("The Coin Game", ["player", "opponent", *MEASURES.values()], rows, note=NOTE)]


class _Meeting:
    """Meta-episodes of any contender; one program for the naive learner, one for all others."""

    def __init__(
        self,
        settings: CoinSettings,
        learned: Mapping[str, Weights],
        check_stop: Callable[[], None],
    ):
        self.settings, self.check_stop = settings, check_stop
        self.learned = jax.tree.map(jnp.asarray, dict(learned))
        self.frames = settings.train.num_updates * settings.train.batch_size
        fixed = settings.learner(coin_players.any_player(settings.step))
        learning = settings.learner(coin_players.naive(settings.train))
        self._who = dict.fromkeys(learned, 0) | {
            name: place for place, name in enumerate(coin_players.HAND_WRITTEN, start=1)
        }

        def against_fixed(who, weights, hyperparams, keys):
            params = settings.env_params(Cast(who, weights))
            return jax.vmap(lambda key: coin_players.play(fixed, hyperparams, key, params))(keys)

        def against_learning(hyperparams, keys):
            params = settings.env_params(())
            return jax.vmap(
                lambda key: coin_players.play_naively(learning, hyperparams, key, params)
            )(keys)

        self._fixed, self._learning = jax.jit(against_fixed), jax.jit(against_learning)

    def __call__(self, name: str, factor: float) -> Episode:
        """Return the meta-episodes of a contender on the held-out keys, fields [seeds, ...].

        Args:
            name: name of the contender.
            factor: factor on the opponents' learning rate.
        """
        settings, seeds = self.settings, self.settings.evaluation.seeds
        keys = keys_for(settings.run.seed, Purpose.HELD_OUT, -(-seeds // CHUNK) * CHUNK)
        rate = jnp.float32(factor * settings.hyperparams.learning_rate)
        hyperparams = settings.hyperparams.replace(learning_rate=rate)
        weights = self.learned.get(name, next(iter(self.learned.values())))
        found = []
        for begin in range(0, seeds, CHUNK):
            self.check_stop()
            some = keys[begin : begin + CHUNK]
            if name == NAIVE:
                episode = self._learning(hyperparams, some)
            else:
                episode = self._fixed(jnp.int32(self._who[name]), weights, hyperparams, some)
            found.append(jax.device_get(episode))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:seeds], *found)


def _own(episode: Episode) -> np.ndarray:
    """Return our reward per step in each meta-episode [seeds]; NaN if the opponent diverged."""
    own = np.mean(episode.earned[:, :, 0], axis=1, dtype=np.float64)
    return np.where(episode.finite, own, np.nan)


def _measures(episode: Episode) -> Cell:
    """Return `MEASURES` of meta-episodes with fields [seeds, ...]."""
    late = episode.earned[:, -max(1, episode.earned.shape[1] // 4) :]
    shares = coin_players.own_share(episode.taken.sum(axis=1))
    values = [*episode.earned.mean(axis=1).T, *shares.T, *late.mean(axis=1).T]
    return {name: mean(each) for name, each in zip(MEASURES, values, strict=True)}
