"""Base classes of the game studies."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import jax

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import MetaParams, MetaProblem
from metaevo.reports import game_plots
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut
from metaevo.studies.games.results import GameResult
from metaevo.studies.study import Plain
from metaevo.training.checks import check_agents
from metaevo.training.train_learner import Task


class GameStudy(Plain):
    """Base of studies that evolve a player or a channel and compare it on fresh seeds."""

    settings: Any

    def about(self) -> PlainDict:
        """Return metadata that is saved with the meta-parameters."""
        return {}

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Write the meta-parameters into the run's directory."""
        about = {**self.about(), "generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

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


class AgentProblem(MetaProblem, Protocol):
    """A problem that trains agents on one task."""

    task: Task


P = TypeVar("P", bound=AgentProblem)


class AgentStudy(GameStudy, Generic[P]):
    """Base of studies with opponents or victims that are agents, trained from scratch."""

    make_problem: Callable[[Any], P]
    """from the settings"""

    def __init__(self, settings: Any, run_path: Path | None = None, *, trust_source: bool = False):
        """Build the problem; the run needs no copies of other runs and no saved code.

        Raises:
            ConfigError: if the agents cannot be built.
        """
        del run_path, trust_source
        self.settings, self.agents = settings, self.make_problem(settings)

    def check(self) -> None:
        """Raise `ConfigError` if strategy, agents or devices are unsuitable."""
        check_agents(self.agents, [self.agents.task], self.settings)

    def problem(self, measured: PlainMapping) -> P:
        """Return the problem."""
        del measured
        return self.agents


def draw_payoffs(figures: Path, opponents: str) -> None:
    """Draw the payoffs of both sides over the generations, if the run has any."""
    if records := RunDirectory(figures.parent).read_metrics("generation"):
        game_plots.plot_payoffs(records, figures / "payoffs.png", opponent=opponents)
