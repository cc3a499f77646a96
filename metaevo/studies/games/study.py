"""Base class of the game studies."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.reports.page import Table
from metaevo.runs.schema import HeldOut
from metaevo.studies.games.results import GameResult, ScoresFormat
from metaevo.studies.problem import ProblemStudy
from metaevo.training.checks import check_agents


class GameStudy(ProblemStudy):
    """Base of studies that evolve a player or a channel and compare it on fresh seeds."""

    settings: Any
    agents: Any
    """the problem, if it trains agents on a task"""
    scores: ScoresFormat
    """format of the scores in evaluation.json"""

    def check(self) -> None:
        """Raise `ConfigError` if strategy, agents or devices are unsuitable."""
        hyperparams, settings = self.settings.hyperparams, self.settings
        tasks = [self.agents.task]
        check_agents(self.agents, tasks, hyperparams, settings.strategy, settings.evolution)

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        evolution_frames: int,
        measured: PlainMapping,
        check_stop: Callable[[], None],
    ) -> HeldOut | None:
        """Return the content of evaluation.json; None if `evaluation.seeds` is 0."""
        del measured
        if not self.settings.evaluation.seeds:
            return None
        return self.judge(learned, path / "figures", check_stop).to_plain(evolution_frames)

    def judge(
        self,
        learned: Mapping[str, MetaParams],
        figures: Path,
        check_stop: Callable[[], None],
    ) -> GameResult:
        """Compare evolved meta-parameters with hand-written contenders on fresh seeds.

        Args:
            learned: the evolved meta-parameters, by name of the contender.
            figures: folder for the figures.
            check_stop: raises if the run should stop.
        """
        raise NotImplementedError

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return the scores of every contender against every opponent."""
        return self.scores.tables(result)
