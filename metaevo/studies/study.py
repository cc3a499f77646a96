"""What can be evolved, as its run sees it: the lifecycle, the report and trackers know only this."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from metaevo.outer_loop.problem import MetaParams, MetaProblem
from metaevo.report.page import Table


class Study(Protocol):
    """A meta-problem, and how what it finds is kept, drawn and judged."""

    name: str
    """of the folder of its runs"""
    captions: Mapping[str, str]
    """of its figures, by their file names"""

    def check(self) -> None:
        """Find out before anything is compiled whether the settings work.

        Raises:
            ConfigError: if they do not.
        """

    def measure(self) -> dict[str, Any]:
        """Return what has to be measured before evolution begins: plain data, kept by its run."""

    def problem(self, measured: Mapping[str, Any]) -> MetaProblem:
        """Return the problem.

        Args:
            measured: what `measure` returned, now or when the run began.
        """

    def describe(self, meta_params: MetaParams) -> dict[str, Any]:
        """Return plain data that is saved beside the result, from which it can be loaded."""

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw what was found."""

    def compare(
        self,
        meta_params: MetaParams,
        path: Path,
        *,
        evolution_frames: int,
        measured: Mapping[str, Any],
        check_stop: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Judge what was found on keys that evolution has not seen; None for no comparison.

        Args:
            meta_params: what was found.
            path: the run's directory: an interrupted comparison goes on with what it left there.
            evolution_frames: environment steps that evolution used.
            measured: as for `problem`.
            check_stop: raises if the run is to stop; called often.

        Returns:
            the content of evaluation.json, with what `metaevo.held_out` says of every contender.
        """

    def title(self, generations: int) -> tuple[str, str]:
        """Return the title and the subtitle of the report; no generations are those of a transfer."""

    def tables(self, result: dict[str, Any]) -> list[Table]:
        """Return tables for the report beside that of the contenders."""
