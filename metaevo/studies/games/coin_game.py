"""Opponent shaping in the Coin Game: a player is evolved against PPO, which learns while they play.

M-FOS (Lu et al. 2022) beyond matrix games: the opponent sees a grid and follows estimates of its
gradient. A candidate plays a meta-episode, in which the opponent learns from scratch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval

from metaevo import statistics
from metaevo.comparison import comparison
from metaevo.config.numbers import check_numbers
from metaevo.evolution.evolution import EvolutionConfig
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.evolution.strategy import StrategyConfig
from metaevo.reports import game_plots
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.games import coin_players
from metaevo.studies.games.coin_players import Cast, Episode, Weights
from metaevo.studies.settings import RunConfig
from metaevo.studies.study import Plain, subtitle
from metaevo.training.checks import check_agents
from metaevo.training.train_learner import Task, working_set
from purerl import ppo
from purerl.envs.coin_game import CoinGame, CoinParams, Player

NAIVE = "naive"
"""The contender that learns as the opponent does."""
CHUNK = 8
"""Meta-episodes of the comparison that are played together."""


@dataclass(frozen=True)
class PolicyConfig:
    """The meta-policy: what a move leads to, and what is remembered, in; how good it is, out."""

    hidden: Annotated[int, Interval(ge=3, le=4096)] = 16
    """tanh units"""
    start: Literal["grim", "uniform"] = "grim"
    """where evolution begins: with a player that cooperates until it is stolen from in an episode,
    or with one that likes all moves alike"""


@dataclass(frozen=True)
class JudgingConfig:
    """The comparison at the end."""

    seeds: Annotated[int, Interval(ge=0, le=100_000)] = 64
    """fresh opponents of every contender; 0 for no comparison"""
    learning_rates: tuple[Annotated[float, Gt(0)], ...] = (0.5, 2.0)
    """of other opponents, as factors on that of evolution"""


@dataclass(frozen=True, kw_only=True)
class CoinSettings:
    """The settings of an evolution of a player."""

    study: Literal["coin_game"] = "coin_game"
    """what is evolved"""
    train: ppo.Config = field(
        default_factory=lambda: ppo.Config(
            total_timesteps=8192, num_envs=8, num_steps=16, num_minibatches=2, hidden_sizes=(16,)
        )
    )
    """of the opponent, which learns after every episode: num_steps is its length"""
    hyperparams: ppo.Hyperparams = field(
        default_factory=lambda: ppo.Hyperparams(
            learning_rate=0.02, final_learning_rate=1.0, gamma=0.96
        )
    )
    """of the opponent"""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    evaluation: JudgingConfig = field(default_factory=JudgingConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent, and an opponent with a memory."""
        check_numbers(self)
        if self.train.recurrent_size:
            raise ValueError(
                f"train.recurrent_size = {self.train.recurrent_size}: must be 0, as learners that "
                "meet in the Coin Game have no memory"
            )

    def learner(self, player: Player) -> ppo.PPO:
        """Return the opponent, which meets a player."""
        return ppo.PPO(self.train, CoinGame(player))

    def env_params(self, player: Any) -> CoinParams:
        """Return the game's parameters, with those of the player."""
        return CoinParams(player, self.train.num_steps)

    @property
    def step(self) -> float:
        """The share of a meta-episode that a step is."""
        return 1.0 / (self.train.num_updates * self.train.num_steps)


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
        metrics = {"opponent": opponent} | dict(
            zip(
                ("own_coins", "opponent_own_coins"),
                coin_players.own_share(jnp.sum(found.taken, axis=0)),
                strict=True,
            )
        )
        return Evaluation(jnp.where(found.finite, own, jnp.nan), metrics)


class CoinStudy(Plain):
    """Conforms to `metaevo.studies.study.Study`."""

    name = "coin_game"
    captions: Mapping[str, str] = {
        "coins.png": "Rewards a step, and the share of coins of its own colour among those that a "
        "player takes, over the episodes after each of which the opponent learns: means over fresh "
        "opponents. Two naive learners beside.",
        "payoffs.png": "What we and the opponents earn over the generations.",
    }

    def __init__(
        self, settings: CoinSettings, run_path: Path | None = None, *, trust_source: bool = False
    ):
        """Keep the settings.

        Args:
            settings: of the evolution.
            run_path: of no use: nothing of other runs is needed.
            trust_source: of no use: no code is loaded.
        """
        del run_path, trust_source
        self.settings = settings
        self._played: dict[str, Episode] = {}

    def check(self) -> None:
        """Find out whether strategy, opponents and devices fit."""
        problem = self.problem({})
        check_agents(problem, [problem.task], self.settings)

    def problem(self, measured: Mapping[str, Any]) -> CoinShaping:
        """Return the problem: a meta-episode."""
        del measured
        return CoinShaping(self.settings)

    def save(self, directory: RunDirectory, meta_params: Weights, generation: int) -> None:
        """Write the meta-policy."""
        tree = jax.device_get(meta_params)
        checkpoint.save_tree(directory.meta_params, tree, {"generation": generation})

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw payoffs over the generations."""
        del meta_params
        if records := RunDirectory(figures.parent).read_metrics("generation"):
            game_plots.plot_payoffs(records, figures / "payoffs.png", opponent="opponents")

    def compare(
        self,
        learned: Mapping[str, Weights],
        path: Path,
        *,
        evolution_frames: int,
        measured: Mapping[str, Any],
        check_stop: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Let meta-policies and other players meet fresh opponents."""
        del measured
        settings, seeds = self.settings, self.settings.evaluation.seeds
        if not seeds:
            return None
        meet = _Meeting(settings, learned, check_stop)
        rates = {"": 1.0} | {
            f"learning rate x {factor:g}": factor for factor in settings.evaluation.learning_rates
        }
        contenders = [*learned, NAIVE, *coin_players.HAND_WRITTEN]
        met = {
            name: {label: meet(name, factor) for label, factor in rates.items()}
            for name in contenders
        }
        first = {name: episodes[""] for name, episodes in met.items()}
        game_plots.plot_coins(
            {name: (each.earned.mean(axis=0), coin_players.own_share(each.taken.mean(axis=0)))
             for name, each in first.items() if name in (contenders[0], NAIVE)},
            path / "figures" / "coins.png",
        )  # fmt: skip
        scores = {name: _own(each)[:, None] for name, each in first.items()}
        return {
            **comparison.summary(
                [comparison.Variant(name, name, {}, 0) for name in scores],
                statistics.fill_missing(scores),
                {name: int(np.sum(~np.isfinite(each))) for name, each in scores.items()},
                list(learned),
            ),
            **comparison.UNTUNED,
            "budget": "There is nothing to tune of hand-written players; the naive learner has "
            "the opponent's settings.",
            "frames_per_agent": meet.frames * len(rates),
            "evolution_frames": evolution_frames,
            "coin_game": {
                "opponents": [label or "as in evolution" for label in rates],
                "contenders": {
                    name: [_told(each) for each in episodes.values()]
                    for name, episodes in met.items()
                },
            },
        }

    def title(self, generations: int) -> tuple[str, str]:
        """Return what is played."""
        return "Shaping PPO in the Coin Game", subtitle(generations)

    def findings(self, meta_params: Weights, result: Mapping[str, Any]) -> list[str]:
        """Return what both earn against an opponent of evolution, and whose coins they take."""
        del meta_params
        found = result.get("coin_game")
        if found is None:
            return []
        told = []
        for name, who in ((result["learned"], "It"), (NAIVE, "A naive learner in its place")):
            cell = found["contenders"][name][0]
            own, other, ours, theirs = (cell[each][0] for each in list(MEASURES)[:4])
            told.append(
                f"{who} earns {own:.3f} a step and the opponent {other:.3f}; of the coins that "
                f"they take {ours:.0%} and {theirs:.0%} have their own colour."
            )
        return told

    def tables(self, result: dict[str, Any]) -> list[Table]:
        """Return what both sides earn and take, a row for each pair."""
        found = result.get("coin_game")
        if found is None:
            return []
        rows = [
            [name, opponent, *(_cell(*cells[place][each]) for each in MEASURES)]
            for place, opponent in enumerate(found["opponents"])
            for name, cells in found["contenders"].items()
        ]
        return [Table("The Coin Game", ["player", "opponent", *MEASURES.values()], rows, note=NOTE)]


MEASURES = {
    "own": "it earns",
    "other": "the opponent earns",
    "own_coins": "its own coins",
    "opponent_own_coins": "the opponent's own coins",
    "late": "it earns, last quarter",
    "late_other": "the opponent earns, last quarter",
}
"""What is told of a contender, and the heading of its column."""
NOTE = (
    "Rewards a step over a meta-episode and over its last quarter, and the share of coins of its "
    "own colour among those that a player takes: means over fresh opponents with 95% intervals."
)


class _Meeting:
    """Meta-episodes of any contender, compiled once for those that learn and for all others."""

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
        """Return the meta-episodes of a contender on the held-out keys, fields [seeds, ...]."""
        settings, seeds = self.settings, self.settings.evaluation.seeds
        keys = keys_for(settings.run.seed, Purpose.HELD_OUT, -(-seeds // CHUNK) * CHUNK)
        hyperparams = settings.hyperparams
        rate = jnp.float32(factor * hyperparams.learning_rate)
        theirs = hyperparams.replace(learning_rate=rate)
        weights = self.learned.get(name, next(iter(self.learned.values())))
        found = []
        for begin in range(0, seeds, CHUNK):
            self.check_stop()
            some = keys[begin : begin + CHUNK]
            episode = (
                self._learning(theirs, some)
                if name == NAIVE
                else self._fixed(jnp.int32(self._who[name]), weights, theirs, some)
            )
            found.append(jax.device_get(episode))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:seeds], *found)


def _own(episode: Episode) -> np.ndarray:
    """What we earned a step in each meta-episode [seeds]; NaN where the opponent diverged."""
    own = np.mean(episode.earned[:, :, 0], axis=1, dtype=np.float64)
    return np.where(episode.finite, own, np.nan)


def _told(episode: Episode) -> dict[str, list[float]]:
    """Return `MEASURES` of meta-episodes, each a mean with its interval, low and high."""
    quarter = max(1, episode.earned.shape[1] // 4)
    shares = coin_players.own_share(episode.taken.sum(axis=1))
    values = dict(zip(MEASURES, [
        *episode.earned.mean(axis=1).T, *shares.T, *episode.earned[:, -quarter:].mean(axis=1).T
    ], strict=True))  # fmt: skip
    return {
        name: [float(each[0]) for each in statistics.mean_curve(value[:, None])]
        for name, value in values.items()
    }


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
