"""Opponent shaping in matrix games: a meta-policy is evolved against opponents that learn.

M-FOS (Lu et al. 2022, "Model-Free Opponent Shaping"): what an opponent learns depends on what we
do, so that a policy over policies can lead it to where we want it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.components import shapers
from metaevo.components.shapers import SELF, Weights
from metaevo.config import ConfigError
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import has_mean
from metaevo.reports import game_plots
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.games import extortion, meta_game, tournament
from metaevo.studies.games.extortion import Illustration
from metaevo.studies.games.meta_game import Opponent
from metaevo.studies.games.shaping_settings import ShapingSettings
from metaevo.studies.study import Plain, subtitle
from purerl.games import LOGITS


class Shaping:
    """A `MetaProblem`: play one meta-episode with a candidate, against one of the opponents."""

    def __init__(self, settings: ShapingSettings, opponents: Sequence[Opponent]):
        """Bind the parts.

        Args:
            settings: of the evolution.
            opponents: of which each meta-episode draws one.
        """
        self.game, self.frames = settings.game.game, settings.game.steps
        self.opponents, self.rate = list(opponents), settings.opponent.learning_rate
        self.hidden = settings.policy.hidden
        self.working_set_bytes = 4 * (3 * LOGITS * self.hidden + 256)
        if any(each.move is None for each in self.opponents):
            self.evaluate_against = self._evaluate

    def init(self, key: jax.Array) -> Weights:
        """Draw a meta-policy."""
        return shapers.init_weights(key, self.hidden)

    def evaluate(self, key: jax.Array, meta_params: Weights) -> Evaluation:
        """Play a meta-episode; whoever meets itself meets its equal."""
        return self._evaluate(key, meta_params, meta_params)

    def _evaluate(self, key: jax.Array, meta_params: Weights, mean: Weights) -> Evaluation:
        start_key, who_key = jax.random.split(key)
        moves = [shapers.shaper(mean) if each.move is None else each.move
                 for each in self.opponents]  # fmt: skip
        who = jax.random.randint(who_key, (), 0, len(moves))

        def theirs(game, rate, *policies):
            branches = [lambda rate, *policies, move=move: move(game, rate, *policies)
                        for move in moves]  # fmt: skip
            return jax.lax.switch(who, branches, rate, *policies)

        episode = meta_game.play(
            self.game,
            shapers.shaper(meta_params),
            theirs if len(moves) > 1 else moves[0],
            (self.rate, self.rate),
            meta_game.start_of(start_key),
            self.frames,
        )
        metrics: dict[str, Any] = {"opponent": jnp.mean(episode.other)}
        return Evaluation(jnp.mean(episode.own), metrics)


class ShapingStudy(Plain):
    """Conforms to `metaevo.studies.study.Study`."""

    name = "shaping"
    captions: Mapping[str, str] = {
        "meta_episode.png": "Probabilities of cooperating at the start and after each outcome (a "
        "player's own action first), and payoffs, over a meta-episode: means of "
        f"{extortion.EPISODES} of them against the first opponent of evolution.",
        "reach.png": "Pairs of values that memory-one opponents can reach against the policies "
        "that the meta-policy moves through, and the line of the fitted factor through mutual "
        "defection: with a factor above 1 it is that of zero-determinant extortion.",
        "payoffs.png": "What we and the opponents earn over the generations.",
    }

    def __init__(
        self, settings: ShapingSettings, run_path: Path | None = None, *, trust_source: bool = False
    ):
        """Find the opponents.

        Args:
            settings: of the evolution.
            run_path: an existing run, whose copies of other runs' meta-policies are used.
            trust_source: of no use: no code is loaded.

        Raises:
            ConfigError: for an opponent that there is not.
        """
        del trust_source
        self.settings, self.game = settings, settings.game.game
        names, others = settings.opponent.all, settings.evaluation.opponents
        if SELF in others:
            raise ConfigError("evaluation.opponents: self is always among them; leave it out")
        self.met = meta_game.find(names, "opponent.names", self.game, run_path)
        self.others = meta_game.find(others, "evaluation.opponents", self.game, run_path)
        self._illustration: tuple[Any, Illustration] | None = None

    def check(self) -> None:
        """Find out whether strategy and devices fit, and whether there is something to shape."""
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

    def keep(self, directory: RunDirectory, measured: Mapping[str, Any]) -> None:
        """Copy the meta-policies of other runs that are met."""
        settings = self.settings
        shapers.keep(directory.path, [*settings.opponent.all, *settings.evaluation.opponents])

    def problem(self, measured: Mapping[str, Any]) -> Shaping:
        """Return the problem: a meta-episode."""
        del measured
        return Shaping(self.settings, self.met)

    def save(self, directory: RunDirectory, meta_params: Weights, generation: int) -> None:
        """Write the meta-policy, so that other runs can meet it."""
        about = {"hidden": self.settings.policy.hidden, "generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw a meta-episode, what opponents can reach, and payoffs over the generations."""
        found, opponent = self._illustrated(meta_params), self.met[0].name
        game_plots.plot_meta_episode(
            found.probabilities, found.payoffs, figures / "meta_episode.png", opponent=opponent
        )
        corners = list(zip(self.game.other, self.game.own, strict=True))
        defection = extortion.defection(self.game)
        game_plots.plot_reach(
            found.reaches,
            corners,
            figures / "reach.png",
            predicted=None if extortion.is_constant_sum(self.game) else defection,
        )
        if records := RunDirectory(figures.parent).read_metrics("generation"):
            names = opponent if len(self.met) == 1 else "opponents"
            game_plots.plot_payoffs(records, figures / "payoffs.png", opponent=names)

    def compare(
        self,
        learned: Mapping[str, Weights],
        path: Path,
        *,
        evolution_frames: int,
        measured: Mapping[str, Any],
        check_stop: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Let meta-policies and hand-written contenders meet all opponents on fresh keys."""
        del path, measured
        if not self.settings.evaluation.seeds:
            return None
        result = tournament.compare(
            tournament.Tournament(self.settings, learned, [*self.met, *self.others]),
            self.met,
            self.others,
            evolution_frames=evolution_frames,
            check_stop=check_stop,
        )
        lines = self._illustrated(next(iter(learned.values()))).lines
        result["extortion"] = {str(step): line._asdict() for step, line in lines.items()}
        return result

    def title(self, generations: int) -> tuple[str, str]:
        """Return against whom evolution went."""
        names = ", ".join(self.settings.opponent.all)
        return f"Shaping an opponent: {names}", subtitle(generations)

    def findings(self, meta_params: Weights, result: Mapping[str, Any]) -> list[str]:
        """Return what both earn, and how near to extortion the policies are."""
        found = []
        if robin := result.get("round_robin"):
            cells = robin["contenders"][result["learned"]][: len(self.met)]
            for name, cell in zip(robin["opponents"], cells, strict=False):
                own, other = cell["own"][0], cell["other"][0]
                found.append(f"Against {name} it earns {own:.2f} a step, the opponent {other:.2f}.")
        if not extortion.is_constant_sum(self.game):
            told = [
                f"After joint move {step} {line.explained:.1%} of what opponents can reach lies "
                f"along a line of factor {line.factor:.2f} that passes {abs(line.miss):.3g} from "
                "mutual defection."
                for step, line in self._illustrated(meta_params).lines.items()
            ]
            extorts = "Extortion is such a line through mutual defection, with a factor above 1."
            found.append(" ".join([*told, extorts]))
        return found

    def tables(self, result: dict[str, Any]) -> list[Table]:
        """Return the round robin."""
        return tournament.tables(result)

    def _illustrated(self, meta_params: Weights) -> Illustration:
        """Return meta-episodes of what was found: played once."""
        if self._illustration is None or self._illustration[0] is not meta_params:
            weights = jax.tree.map(jnp.asarray, meta_params)
            ours = shapers.shaper(weights)
            found = extortion.illustrate(
                self.game,
                ours,
                self.met[0].move or ours,
                self.settings.opponent.learning_rate,
                steps=self.settings.game.steps,
                seed=self.settings.run.seed,
            )
            self._illustration = (meta_params, found)
        return self._illustration[1]
