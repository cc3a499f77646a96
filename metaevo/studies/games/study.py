"""Base class of the game studies."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import jax

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import MetaParams, MetaProblem
from metaevo.reports.evolution_plots import plot_metrics
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut
from metaevo.studies.games.results import GameResult, ScoresFormat
from metaevo.studies.study import Plain
from metaevo.training.checks import check_agents
from metaevo.training.train_learner import Task

METRICS = "metrics.png"
CAPTION = {METRICS: "Metrics of the candidates over the generations: means over the population."}


class AgentProblem(MetaProblem, Protocol):
    """A problem that trains agents on one task."""

    task: Task


P = TypeVar("P", bound=AgentProblem)


class GameStudy(Plain, Generic[P]):
    """Base of studies that evolve a player or a channel and compare it on fresh seeds.

    Opponents or victims are agents that are trained from scratch, unless a study overrides
    `__init__`, `check` and `problem`.
    """

    settings: Any
    make_problem: Callable[[Any], P]
    """from the settings"""
    metrics: Sequence[str]
    """metrics of an evaluation, drawn over the generations"""
    scores: ScoresFormat
    """format of the scores in evaluation.json"""

    def __init__(self, settings: Any):
        """Build the problem.

        Raises:
            ConfigError: if the agents cannot be built.
        """
        self.settings, self.agents = settings, self.make_problem(settings)

    def check(self) -> None:
        """Raise `ConfigError` if strategy, agents or devices are unsuitable."""
        check_agents(self.agents, [self.agents.task], self.settings)

    def problem(self, measured: PlainMapping) -> P:
        """Return the problem."""
        del measured
        return self.agents

    def about(self) -> PlainDict:
        """Return metadata that is saved with the meta-parameters."""
        return {}

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Write the meta-parameters into the run's directory."""
        about = {**self.about(), "generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the evolved player or channel, and metrics over the generations of the run."""
        self.draw_frame(meta_params, figures)
        if records := RunDirectory(figures.parent).read_metrics("generation"):
            plot_metrics(records, self.metrics, figures / METRICS)

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
