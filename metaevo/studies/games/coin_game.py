"""Opponent shaping in the Coin Game: a player is evolved against PPO, which learns while they play.

M-FOS (Lu et al. 2022) beyond matrix games: the opponent sees a grid and follows estimates of its
gradient. A candidate plays a meta-episode, in which the opponent learns from scratch.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components.component import LEARNED
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import game_plots
from metaevo.studies.games import coin_players
from metaevo.studies.games.coin_players import Cast, Episode, Weights
from metaevo.studies.games.comparison import (
    Estimate,
    FreshAgents,
    GameResult,
    GameStudy,
    ScoresFormat,
    mean,
)
from metaevo.studies.games.settings import CoinSettings
from metaevo.studies.study import CAPTION, subtitle
from metaevo.training.train_learner import Task, working_set
from purerl.envs.coin_game import Player

NAIVE = "naive"
"""Name of the contender that learns like the opponent."""
SHOWN = 8
"""Number of meta-episodes in the figure."""
SCORES = ScoresFormat(
    "coin_game",
    {
        "own": "The Coin Game: reward of the player",
        "other": "Reward of the opponent",
        "own_coins": "Share of own coins of the player",
        "opponent_own_coins": "Share of own coins of the opponent",
        "late": "Reward of the player, last quarter",
        "late_other": "Reward of the opponent, last quarter",
    },
    "Rewards a step over a meta-episode and over its last quarter, and the share of coins of its "
    "own colour among those that a player takes: means over fresh opponents with 95% intervals.",
    digits=3,
)


class CoinShaping:
    """A `MetaProblem`: play a meta-episode with a candidate."""

    differentiable = False
    """False, because actions are sampled"""

    def __init__(self, settings: CoinSettings):
        """Bind the parts."""
        self.settings, self.hyperparams = settings, settings.hyperparams
        player = coin_players.player(settings.step, coin_players.meta_policy)
        self.learner = settings.learner(player)
        weights = jax.eval_shape(self.init, jax.random.key(0))
        example = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), weights)
        params = settings.env_params(Cast(np.int32(0), example))
        self.task = Task("the Coin Game", self.learner, params)
        self.frames = settings.train.num_updates * settings.train.batch_size
        self.working_set_bytes = working_set(self.task, self.hyperparams, None)

    def init(self, key: jax.Array) -> Weights:
        """Draw a meta-policy."""
        config = self.settings.policy
        return coin_players.init_weights(key, config.hidden, config.start)

    def evaluate(self, key: jax.Array, meta_params: Weights) -> Evaluation:
        """Play a meta-episode."""
        found = self.play(key, meta_params)
        own, opponent = jnp.mean(found.earned, axis=0)
        shares = coin_players.own_share(jnp.sum(found.taken, axis=0))
        metrics = {"opponent": opponent, "own_coins": shares[0], "opponent_own_coins": shares[1]}
        return Evaluation(jnp.where(found.finite, own, jnp.nan), metrics)

    def play(self, key: jax.Array, weights: Weights) -> Episode:
        """Play a meta-episode with a meta-policy."""
        params = self.settings.env_params(Cast(jnp.int32(0), weights))
        return coin_players.play(self.learner, self.hyperparams, key, params)


class CoinStudy(GameStudy):
    """Opponent shaping in the Coin Game, as a study."""

    Settings, free = CoinSettings, ("train.", "hyperparams.")
    name, scores = "coin_game", SCORES
    metrics = "opponent", "own_coins", "opponent_own_coins"
    captions: Mapping[str, str] = {
        "coins.png": "Rewards a step, and the share of coins of its own colour among those that a "
        "player takes, over the episodes after each of which the opponent learns: means over fresh "
        "opponents; below, two naive learners.",
        **CAPTION,
    }

    def make_problem(self, settings: CoinSettings) -> CoinShaping:
        """Return the problem."""
        return CoinShaping(settings)

    def draw_frame(self, meta_params: Weights, figures: Path) -> None:
        """Draw rewards and coins against a few opponents."""
        found = self._meta_episodes(jax.tree.map(jnp.asarray, meta_params))
        game_plots.plot_coins({LEARNED: _curves(found)}, figures / "coins.png")

    @cached_property
    def _meta_episodes(self) -> Callable[[Weights], Episode]:
        """Meta-episodes of a meta-policy against a few opponents; compiled once."""
        keys = keys_for(self.settings.run.seed, Purpose.ILLUSTRATION, SHOWN)
        return jax.jit(lambda weights: jax.vmap(lambda key: self.agents.play(key, weights))(keys))

    def judge(
        self, learned: Mapping[str, Weights], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Evaluate meta-policies and other players against fresh opponents."""
        settings = self.settings
        unused = next(iter(learned.values()))
        casts = {name: Cast(jnp.int32(0), weights) for name, weights in learned.items()} | {
            name: Cast(jnp.int32(place), unused)
            for place, name in enumerate(coin_players.HAND_WRITTEN, start=1)
        }
        policies = coin_players.meta_policy, *coin_players.HAND_WRITTEN.values()
        anyone = coin_players.player(settings.step, *policies)
        pairs = self._play({NAIVE: ()}, coin_players.naive(settings.train), check_stop)
        played = [
            alone | others
            for alone, others in zip(pairs, self._play(casts, anyone, check_stop), strict=True)
        ]
        names = [*learned, NAIVE, *coin_players.HAND_WRITTEN]
        shown = {name: _curves(played[0][name]) for name in (names[0], NAIVE)}
        game_plots.plot_coins(shown, figures / "coins.png")
        cells = {name: [_measures(episodes[name]) for episodes in played] for name in names}
        return GameResult(
            {name: _own(played[0][name]) for name in names},
            "Hand-written players have no settings to tune; the naive learner has those of its "
            "opponent.",
            self.agents.frames * len(played),
            SCORES.to_plain(list(self._rates), cells),
        )

    @property
    def _rates(self) -> dict[str, float]:
        """Learning rates of the opponents by their names in the tables."""
        rate = self.settings.hyperparams.learning_rate
        factors = self.settings.evaluation.learning_rates
        return {"as in evolution": rate} | {
            f"learning rate x {factor:g}": factor * rate for factor in factors
        }

    def _play(
        self, params: Mapping[str, Any], player: Player, check_stop: Callable[[], None]
    ) -> list[dict[str, Episode]]:
        """Return meta-episodes by contender, for each learning rate of the opponents.

        `params` are the parameters of `player` by contender.
        """
        settings, learner = self.settings, self.settings.learner(player)

        def run(key: jax.Array, row: PlainDict) -> Episode:
            hyperparams = settings.hyperparams.replace(learning_rate=row["rate"])
            env_params = settings.env_params(row["player"])
            both_learn = NAIVE in params
            return coin_players.play(learner, hyperparams, key, env_params, both_learn=both_learn)

        def make_row(_: jax.Array, name: str, *, rate: float) -> PlainDict:
            return {"player": params[name], "rate": jnp.float32(rate)}

        frames, bytes_per_agent = self.agents.frames, self.agents.working_set_bytes
        fresh = FreshAgents(settings, params, run, frames=frames, bytes_per_agent=bytes_per_agent)
        return [
            fresh(partial(make_row, rate=rate), f"comparing: {opponent}", check_stop)
            for opponent, rate in self._rates.items()
        ]

    def title(self, generations: int) -> tuple[str, str]:
        """Return the game."""
        return "Shaping PPO in the Coin Game", subtitle(generations)

    def findings(self, meta_params: Weights, result: PlainMapping) -> list[str]:
        """Return the payoffs and coins of both sides against an opponent of evolution."""
        del meta_params
        _, cells = SCORES.read(result)
        if not cells:
            return []
        sentences = []
        for name, who in ((result["learned"], "It"), (NAIVE, "A naive learner in its place")):
            own, other, own_coins, other_coins, *_ = (each[0] for each in cells[name][0].values())
            sentences.append(
                f"{who} earns {own:.3f} a step and the opponent {other:.3f}; of the coins that "
                f"they take {own_coins:.0%} and {other_coins:.0%} have their own colour."
            )
        return sentences


def _curves(episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean rewards a step and the shares of own coins, [episodes, 2] each."""
    earned, taken = jax.device_get((episode.earned.mean(axis=0), episode.taken.mean(axis=0)))
    return earned, np.asarray(coin_players.own_share(taken))


def _own(episode: Episode) -> np.ndarray:
    """Return our reward per step in each meta-episode [seeds]; NaN if the opponent diverged."""
    own = np.mean(episode.earned[:, :, 0], axis=1, dtype=np.float64)
    return np.where(episode.finite, own, np.nan)


def _measures(episode: Episode) -> dict[str, Estimate]:
    """Return the measures of meta-episodes with fields [seeds, ...]."""
    late = episode.earned[:, -max(1, episode.earned.shape[1] // 4) :]
    shares = coin_players.own_share(episode.taken.sum(axis=1))
    values = [*episode.earned.mean(axis=1).T, *shares.T, *late.mean(axis=1).T]
    return {name: mean(each) for name, each in zip(SCORES.titles, values, strict=True)}
