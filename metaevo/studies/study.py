"""The `Study` interface, used by the lifecycle, the comparison, the report and the trackers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import MetaParams, MetaProblem
from metaevo.reports.page import Table
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut


class Study(Protocol):
    """A meta-problem, and how its result is saved, drawn and judged."""

    name: str
    """name of the folder that contains its runs"""

    @property
    def folds(self) -> str:
        """The heading under which the report folds its tables; empty to show them."""

    @property
    def captions(self) -> Mapping[str, str]:
        """Captions of the figures, by file name."""

    def check(self) -> None:
        """Raise `ConfigError`, before anything is compiled, if the settings are invalid."""

    def measure(self) -> PlainDict:
        """Return the measurements needed before evolution, as plain data that the run saves."""

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Write the files that a run needs in addition to its settings.

        `measured` is what `measure` returned, now or when the run began.

        Raises:
            ConfigError: if the run cannot be resumed because its inputs have changed.
        """

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem."""

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the meta-parameters evolved in some generations to the run's directory."""

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the evolved meta-parameters."""

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
        """Judge the results on keys that evolution has not seen.

        Args:
            learned: the meta-parameters found by each evolution, by name in the comparison;
                figures and ablations are shown for the first.
            path: the run's directory; an interrupted comparison resumes from its files there.
            evolution_frames: environment steps of one evolution.
            measured: as for `problem`.
            check_stop: raises if the run should stop; called often.

        Returns:
            the content of evaluation.json, see `metaevo.comparison.comparison.summary`, or None if
            no comparison is made.
        """

    def title(self, generations: int) -> tuple[str, str]:
        """Return title and subtitle of the report; 0 generations mean a report on another task."""

    def findings(self, meta_params: MetaParams, result: PlainMapping) -> list[str]:
        """Return sentences that describe the result.

        `result` is the content of evaluation.json, empty without a comparison.
        """

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return tables for the report in addition to the table of contenders."""


class Entry(NamedTuple):
    """A study in the registry."""

    settings: Callable[[PlainDict, str | None], type[Any]]
    """from raw settings, and the component that a script evolves, to their class"""
    make: Callable[..., Study]
    """`(settings, run_path, trust_source=...)`, as `LearnerStudy` has them"""
    free: tuple[str, ...]
    """prefixes of the settings that may differ when a result is judged again"""


TRAINING = ("task.", "train.", "hyperparams.")
"""Prefixes of the settings of trained agents."""


def alone(make: Callable[[Any], Study]) -> Callable[..., Study]:
    """Return a factory for a study that needs no copies and no saved code of a run."""
    return lambda settings, *_, **__: make(settings)


def subtitle(generations: int) -> str:
    """Return the subtitle of a report; 0 generations mean a report with other settings."""
    return f"{generations} generations" if generations else "judged with other settings"
