"""A study, as its run sees it: lifecycle, comparison, report and trackers know only this."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import MetaParams, MetaProblem
from metaevo.reports.page import Table
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut


class Study(Protocol):
    """A meta-problem, and how what it finds is kept, drawn and judged."""

    name: str
    """of the folder of its runs"""

    @property
    def folds(self) -> str:
        """The heading under which the report folds its tables; empty to show them."""

    @property
    def captions(self) -> Mapping[str, str]:
        """Those of its figures, by their file names."""

    def check(self) -> None:
        """Find out before anything is compiled whether the settings work.

        Raises:
            ConfigError: if they do not.
        """

    def measure(self) -> PlainDict:
        """Return what has to be measured before evolution begins: plain data, kept by its run."""

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Write into a run's directory what the run needs beside its settings.

        Args:
            directory: of a run that begins or is resumed.
            measured: what `measure` returned, now or when the run began.

        Raises:
            ConfigError: if a resumed run would become another one.
        """

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem.

        Args:
            measured: what `measure` returned, now or when the run began.
        """

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Write what was found, after some generations, into the run's directory."""

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw what was found."""

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the figures that the report animates over the generations, at most a second each."""

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        evolution_frames: int,
        measured: PlainMapping,
        check_stop: Callable[[], None],
    ) -> HeldOut | None:
        """Judge what was found on keys that evolution has not seen; None for no comparison.

        Args:
            learned: what every evolution has found, by the names that it has in the comparison;
                first the one whose pictures and ablations are shown.
            path: the run's directory: an interrupted comparison continues from what it left there.
            evolution_frames: environment steps of one evolution.
            measured: as for `problem`.
            check_stop: raises if the run should stop; called often.

        Returns:
            the content of evaluation.json, see `metaevo.comparison.comparison.summary`.
        """

    def title(self, generations: int) -> tuple[str, str]:
        """Return title and subtitle of the report; without generations, of one on another task."""

    def findings(self, meta_params: MetaParams, result: PlainMapping) -> list[str]:
        """Return sentences that say what was found, from its numbers.

        Args:
            meta_params: what was found.
            result: the content of evaluation.json; empty without a comparison.
        """

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return tables for the report beside that of the contenders."""


def subtitle(generations: int) -> str:
    """Return the second title of a report; without generations, of one with other settings."""
    return f"{generations} generations" if generations else "judged with other settings"


class Plain:
    """What most studies have in common: nothing is measured before, kept beside, or folded away."""

    captions: Mapping[str, str] = {}
    folds = ""

    def measure(self) -> PlainDict:
        """Return nothing: there is nothing to measure before."""
        return {}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Write nothing: the settings say it all."""

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw no figure: there is no animation."""
