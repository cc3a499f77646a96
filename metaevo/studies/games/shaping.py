"""Opponent shaping in matrix games: a meta-policy is evolved against opponents that learn.

M-FOS (Lu et al. 2022, "Model-Free Opponent Shaping"): the opponents' learning depends on our
policies, so a policy over policies can steer their learning.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.problem import Evaluation, MetaProblem
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts import players
from metaevo.parts.players import Opponent, Weights
from metaevo.reports import game_plots
from metaevo.reports.game_plots import Line, Reach
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.games.comparison import GameResult, GameStudy
from metaevo.studies.games.settings import ShapingSettings
from metaevo.studies.games.tournament import ROUND_ROBIN, Tournament
from metaevo.studies.study import CAPTION, subtitle
from purerl import opponents
from purerl.games import LOGITS, values
from purerl.types import PyTree

SHOWN = (1, 3, 10, 100)
"""Joint moves to examine."""
EPISODES, RIVALS = 64, 256


class Shaping(MetaProblem):
    """A `MetaProblem`: play one meta-episode with a candidate against a random opponent."""

    def __init__(self, settings: ShapingSettings, met: Sequence[Opponent]):
        """Bind the opponents, of which each meta-episode draws one."""
        self.game, self.steps = settings.game.game, settings.game.steps
        self.met, self.rate = list(met), settings.opponent.learning_rate
        self.hidden = settings.policy.hidden

    @property
    def working_set_bytes(self) -> int:
        """Bytes that one meta-episode walks over."""
        return 4 * (3 * LOGITS * self.hidden + 256)

    def frames(self, task: PyTree) -> int:
        """Return the joint moves of a meta-episode."""
        return self.steps

    def init(self, key: jax.Array) -> Weights:
        """Draw a meta-policy."""
        return players.init_weights(key, self.hidden)

    def evaluate(self, key: jax.Array, meta_params: Weights, task: PyTree) -> Evaluation:
        """Play a meta-episode."""
        start_key, who_key = jax.random.split(key)
        met = [each.player for each in self.met]
        who = jax.random.randint(who_key, (), 0, len(met))
        episode = opponents.play(
            self.game,
            players.shaper(meta_params),
            opponents.one_of(met, who) if len(met) > 1 else met[0],
            opponents.draw_start(start_key),
            rates=(self.rate, self.rate),
            steps=self.steps,
        )
        metrics: PlainDict = {"opponent": jnp.mean(episode.other)}
        return Evaluation(jnp.mean(episode.own), metrics)


class Illustration(NamedTuple):
    """Meta-episodes on separate keys, and the values that opponents could have reached."""

    probabilities: np.ndarray
    """[steps, 2, 5] probabilities of cooperating, means over meta-episodes"""
    payoffs: np.ndarray
    """[steps, 2]"""
    reaches: list[Reach]
    """values reached in the first meta-episode"""
    lines: dict[int, Line]
    """by joint moves, medians over meta-episodes"""


class ShapingStudy(GameStudy):
    """Opponent shaping in matrix games, as a study."""

    Settings, free = ShapingSettings, ("game.", "opponent.")
    name, metrics, format = "shaping", ("opponent",), ROUND_ROBIN
    captions: Mapping[str, str] = {
        "meta_episode.png": "Probabilities of cooperating at the start and after each outcome (a "
        "player's own action first), and payoffs, over a meta-episode: means of "
        f"{EPISODES} of them against the first opponent of evolution.",
        "reach.png": "Pairs of values that memory-one opponents can reach against the policies "
        "of the meta-policy, and the line with the fitted factor through mutual defection; in "
        "zero-determinant extortion the factor is above 1.",
        **CAPTION,
    }

    def __init__(self, settings: ShapingSettings, run_path: Path | None = None):
        """Find the opponents; arguments and errors are those of `players.find`."""
        self.game = settings.game.game
        names, others = settings.opponent.all, settings.evaluation.opponents
        self.met, self.others = (
            players.find(names, key, self.game, run_path)
            for names, key in zip((names, others), players.SETTINGS, strict=True)
        )
        super().__init__(settings)

    @classmethod
    def make(cls, settings: ShapingSettings, run_path: Path | None = None) -> Self:
        """Return the study of the settings."""
        return cls(settings, run_path)

    def make_problem(self, settings: ShapingSettings) -> Shaping:
        """Return the problem."""
        return Shaping(settings, self.met)

    def check(self) -> None:
        """Raise `ConfigError` if strategy or devices are unsuitable, or no opponent learns."""
        settings = self.settings
        if not any(each.learns for each in self.met):
            raise ConfigError(
                f"opponent.names: {', '.join(settings.opponent.all)} has no gradient to follow and "
                "never changes: at least one opponent must learn, such as naive or lola"
            )
        check_evolution(self.problem({}), settings.strategy.build(), settings.evolution)

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Copy the meta-policies of other runs and the user's own players."""
        players.keep(directory.path, [*self.met, *self.others])

    def about(self) -> PlainDict:
        """Return the size of the meta-policy, which `metaevo.load` reads."""
        return {"hidden": self.settings.policy.hidden}

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw a meta-episode, metrics, and the values that opponents can reach."""
        super().draw(meta_params, figures)
        game_plots.plot_reach(
            self.illustrate(meta_params).reaches,
            list(zip(self.game.other, self.game.own, strict=True)),
            figures / "reach.png",
            predicted=None if self._is_constant_sum else self._defection,
        )

    def draw_frame(self, meta_params: Weights, figures: Path) -> None:
        """Draw a meta-episode."""
        found, opponent = self.illustrate(meta_params), self.met[0].label
        game_plots.plot_meta_episode(
            found.probabilities, found.payoffs, figures / "meta_episode.png", opponent=opponent
        )

    def judge(
        self, learned: Mapping[str, Weights], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Play a round robin of meta-policies, hand-written contenders and all opponents."""
        del figures
        return Tournament(self.settings, learned, self.met, self.others).result(check_stop)

    def title(self, generations: int) -> tuple[str, str]:
        """Return the opponents of the evolution."""
        names = ", ".join(self.settings.opponent.all)
        return f"Shaping an opponent: {names}", subtitle(generations)

    def findings(self, meta_params: Weights) -> list[str]:
        """Return the payoffs of both sides, and the distance of the policies from extortion."""
        found = []
        _, names, cells = self.judged or (None, (), {})
        for place, name in enumerate(names[: len(self.met)]):
            cell = next(iter(cells.values()))[place]
            own, other = cell["own"][0], cell["other"][0]
            found.append(f"Against {name} it earns {own:.2f} a step, the opponent {other:.2f}.")
        if not self._is_constant_sum:
            lines = [
                f"After joint move {step}, {line.explained:.1%} of the values that opponents can "
                f"reach lie along a line with factor {line.factor:.2f} that passes "
                f"{abs(line.miss):.3g} from mutual defection."
                for step, line in self.illustrate(meta_params).lines.items()
            ]
            extorts = "Extortion is such a line through mutual defection, with a factor above 1."
            found.append(" ".join([*lines, extorts]))
        return found

    @property
    def _is_constant_sum(self) -> bool:
        """Whether the sum of payoffs is constant; all pairs of values are then on a line."""
        return len({a + b for a, b in zip(self.game.own, self.game.other, strict=True)}) == 1

    @cached_property
    def illustrate(self) -> Callable[[Weights], Illustration]:
        """Play meta-episodes of a meta-policy against the first opponent; compiled once."""
        game, steps = self.game, self.settings.game.steps
        rates = (self.settings.opponent.learning_rate,) * 2
        keys = keys_for(self.settings.run.seed, Purpose.ILLUSTRATION, EPISODES)
        rivals = opponents.logits(np.random.default_rng(0).beta(0.5, 0.5, (RIVALS, LOGITS)))
        shown = [step for step in SHOWN if step <= steps]

        def against(policy, rival):
            return jnp.stack(values(game, policy, rival)[::-1])

        @jax.jit
        @partial(jax.vmap, in_axes=(None, 0))
        def play(weights, key):
            start, ours = opponents.draw_start(jax.random.split(key)[0]), players.shaper(weights)
            found = opponents.play(game, ours, self.met[0].player, start, rates=rates, steps=steps)
            policies = found.policies[np.array(shown) - 1, 0]
            return found, jax.vmap(jax.vmap(against, (None, 0)), (0, None))(policies, rivals)

        def illustrate(weights: Weights) -> Illustration:
            found, pairs = play(jax.tree.map(jnp.asarray, weights), keys)
            pairs = np.asarray(pairs, np.float64)  # [episodes, shown, rivals, 2], theirs first
            payoffs = np.stack([found.own, found.other], axis=-1)
            chances = np.asarray(jnp.mean(jax.nn.sigmoid(found.policies), axis=0))
            reaches, lines = [], {}
            for place, step in enumerate(shown):
                fits = [fit(each, self._defection) for each in pairs[:, place]]
                lines[step] = Line(*(float(each) for each in np.median(fits, axis=0)))
                reaches.append(Reach(step, pairs[0, place], fits[0], payoffs[0, step - 1, ::-1]))
            return Illustration(chances, payoffs.mean(axis=0), reaches, lines)

        return illustrate

    @property
    def _defection(self) -> tuple[float, float]:
        """The payoffs of mutual defection, the opponent's first."""
        return self.game.other[3], self.game.own[3]


def fit(pairs: np.ndarray, point: tuple[float, float]) -> Line:
    """Return the line nearest to pairs [pairs, 2] of values, by total least squares.

    Against a zero-determinant strategy (Press & Dyson 2012) the values of both players are on a
    line, whatever the opponent does; extortion is such a line through mutual defection. The
    opponent's values come first, also in `point`, where the offset of the line is measured.
    """
    pairs = pairs.T - np.array(point)[:, np.newaxis]
    spread, directions = np.linalg.eigh(np.cov(pairs))
    across, along = directions[:, 1]
    factor = float(along / across) if across else np.inf
    middle = pairs.mean(axis=1)
    total = spread.sum()
    explained = float(spread[1] / total) if total > 0 else 1.0
    return Line(factor, float(middle[1] - factor * middle[0]), explained)
