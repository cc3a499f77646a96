"""Opponent shaping in matrix games: a meta-policy is evolved against opponents that learn.

M-FOS (Lu et al. 2022, "Model-Free Opponent Shaping"): the opponents' learning depends on our
policies, so a policy over policies can steer their learning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp

from metaevo.components import players
from metaevo.components.players import SELF, Opponent, Weights
from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategies import has_mean
from metaevo.reports import game_plots
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.games import extortion
from metaevo.studies.games.comparison import GameResult, GameStudy
from metaevo.studies.games.extortion import Illustration
from metaevo.studies.games.settings import ShapingSettings
from metaevo.studies.games.tournament import ROUND_ROBIN, Tournament
from metaevo.studies.problem import CAPTION
from metaevo.studies.study import subtitle
from purerl import opponents
from purerl.games import LOGITS


class Shaping:
    """A `MetaProblem`: play one meta-episode with a candidate against a random opponent."""

    def __init__(self, settings: ShapingSettings, met: Sequence[Opponent]):
        """Bind the parts.

        Args:
            settings: settings of the evolution.
            met: the opponents, of which each meta-episode draws one.
        """
        self.game, self.frames = settings.game.game, settings.game.steps
        self.met, self.rate = list(met), settings.opponent.learning_rate
        self.hidden = settings.policy.hidden
        self.working_set_bytes = 4 * (3 * LOGITS * self.hidden + 256)
        if any(each.player is None for each in self.met):
            self.evaluate_against = self._evaluate

    def init(self, key: jax.Array) -> Weights:
        """Draw a meta-policy."""
        return players.init_weights(key, self.hidden)

    def evaluate(self, key: jax.Array, meta_params: Weights) -> Evaluation:
        """Play a meta-episode; in self-play the opponent is the candidate itself."""
        return self._evaluate(key, meta_params, meta_params)

    def _evaluate(self, key: jax.Array, meta_params: Weights, mean: Weights) -> Evaluation:
        start_key, who_key = jax.random.split(key)
        met = [players.shaper(mean) if each.player is None else each.player for each in self.met]
        who = jax.random.randint(who_key, (), 0, len(met))
        episode = opponents.play(
            self.game,
            players.shaper(meta_params),
            opponents.one_of(met, who) if len(met) > 1 else met[0],
            opponents.draw_start(start_key),
            rates=(self.rate, self.rate),
            steps=self.frames,
        )
        metrics: PlainDict = {"opponent": jnp.mean(episode.other)}
        return Evaluation(jnp.mean(episode.own), metrics)


class ShapingStudy(GameStudy):
    """Conforms to `metaevo.studies.study.Study`."""

    name, metrics, scores = "shaping", ("opponent",), ROUND_ROBIN
    captions: Mapping[str, str] = {
        "meta_episode.png": "Probabilities of cooperating at the start and after each outcome (a "
        "player's own action first), and payoffs, over a meta-episode: means of "
        f"{extortion.EPISODES} of them against the first opponent of evolution.",
        "reach.png": "Pairs of values that memory-one opponents can reach against the policies "
        "of the meta-policy, and the line with the fitted factor through mutual defection; in "
        "zero-determinant extortion the factor is above 1.",
        **CAPTION,
    }

    def __init__(
        self, settings: ShapingSettings, run_path: Path | None = None, *, trust_source: bool = False
    ):
        """Find the opponents.

        Args:
            settings: settings of the evolution.
            run_path: an existing run with copies of its players.
            trust_source: whether source code of players that this run has saved may be executed.

        Raises:
            ConfigError: if an opponent does not exist.
        """
        self.game = settings.game.game
        names, others = settings.opponent.all, settings.evaluation.opponents
        if SELF in others:
            raise ConfigError("evaluation.opponents: self is always among them; leave it out")
        self.met, self.others = (
            players.find(names, key, self.game, run_path, trust_source=trust_source)
            for names, key in zip((names, others), players.SETTINGS, strict=True)
        )
        super().__init__(Shaping(settings, self.met), settings)

    def check(self) -> None:
        """Raise `ConfigError` if strategy or devices are unsuitable, or no opponent learns."""
        settings = self.settings
        if not any(each.learns for each in self.met):
            raise ConfigError(
                f"opponent.names: {', '.join(settings.opponent.all)} has no gradient to follow and "
                "never changes: at least one opponent must learn, such as naive or lola"
            )
        if SELF in settings.opponent.all and not has_mean(settings.strategy):
            raise ConfigError(
                f"opponent.names: self is the mean of the strategy, which "
                f"{settings.strategy.algorithm} does not have; take Open_ES"
            )
        check_evolution(self.problem({}), settings.strategy, settings.evolution)

    def measure(self) -> PlainDict:
        """Return the digests of the user's own players."""
        digests = players.digests([*self.met, *self.others])
        return {players.SOURCES: digests} if digests else {}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Copy the meta-policies of other runs and the user's own players."""
        players.keep(directory.path, [*self.met, *self.others], measured.get(players.SOURCES))

    def about(self) -> PlainDict:
        """Return the size of the meta-policy, which `metaevo.load` reads."""
        return {"hidden": self.settings.policy.hidden}

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw a meta-episode, metrics, and the values that opponents can reach."""
        super().draw(meta_params, figures)
        game_plots.plot_reach(
            self._illustrated(meta_params).reaches,
            list(zip(self.game.other, self.game.own, strict=True)),
            figures / "reach.png",
            predicted=None if self._is_constant_sum else extortion.defection(self.game),
        )

    def draw_frame(self, meta_params: Weights, figures: Path) -> None:
        """Draw a meta-episode."""
        found, opponent = self._illustrated(meta_params), self.met[0].label
        game_plots.plot_meta_episode(
            found.probabilities, found.payoffs, figures / "meta_episode.png", opponent=opponent
        )

    def judge(
        self, learned: Mapping[str, Weights], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Play a round robin of meta-policies, hand-written contenders and all opponents."""
        del figures
        found = Tournament(self.settings, learned, self.met, self.others).result(check_stop)
        lines = self._illustrated(next(iter(learned.values()))).lines
        plain = {str(step): line._asdict() for step, line in lines.items()}
        return replace(found, more={**found.more, "extortion": plain})

    def title(self, generations: int) -> tuple[str, str]:
        """Return the opponents of the evolution."""
        names = ", ".join(self.settings.opponent.all)
        return f"Shaping an opponent: {names}", subtitle(generations)

    def findings(self, meta_params: Weights, result: PlainMapping) -> list[str]:
        """Return the payoffs of both sides, and the distance of the policies from extortion."""
        found = []
        names, cells = self.scores.read(result)
        for place, name in enumerate(names[: len(self.met)]):
            cell = cells[result["learned"]][place]
            own, other = cell["own"][0], cell["other"][0]
            found.append(f"Against {name} it earns {own:.2f} a step, the opponent {other:.2f}.")
        if not self._is_constant_sum:
            lines = [
                f"After joint move {step} {line.explained:.1%} of the values that opponents can "
                f"reach lie along a line with factor {line.factor:.2f} that passes "
                f"{abs(line.miss):.3g} from mutual defection."
                for step, line in self._illustrated(meta_params).lines.items()
            ]
            extorts = "Extortion is such a line through mutual defection, with a factor above 1."
            found.append(" ".join([*lines, extorts]))
        return found

    @property
    def _is_constant_sum(self) -> bool:
        """Whether the sum of payoffs is constant; all pairs of values are then on a line."""
        return len({a + b for a, b in zip(self.game.own, self.game.other, strict=True)}) == 1

    @cached_property
    def _illustrated(self) -> Callable[[Weights], Illustration]:
        """Meta-episodes of a meta-policy against the first opponent; compiled once."""
        settings = self.settings
        return extortion.illustrator(
            self.game,
            self.met[0].player,
            settings.opponent.learning_rate,
            steps=settings.game.steps,
            seed=settings.run.seed,
        )
