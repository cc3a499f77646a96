"""Study of any meta-problem, evolved and reported without a comparison."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax

from metaevo.components import registry
from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution import strategies
from metaevo.evolution.checks import check_evaluation, check_evolution, check_meta_params
from metaevo.evolution.problem import MetaParams, MetaProblem
from metaevo.reports.evolution_plots import plot_metrics, plot_numbers
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.tables import evolved_numbers

CODE = "problem"
"""Key of the digest of the problem's source code in the resolved part of config.yaml."""
METRICS, NUMBERS = "metrics.png", "meta_params.png"
CAPTION = {METRICS: "The problem's own metrics: means over the candidates."}
MOST_BARS = 64
"""Maximum count of numbers in meta-parameters that are drawn."""


class ProblemStudy:
    """Conforms to `metaevo.studies.study.Study`."""

    name, folds = "", ""
    metrics: Sequence[str] = ()
    """metrics of an evaluation, drawn over the generations"""
    captions: Mapping[str, str] = {NUMBERS: "The evolved meta-parameters.", **CAPTION}

    def __init__(self, problem: MetaProblem, settings: EvolutionSettings):
        """Bind a problem and the settings of its evolution."""
        self._problem, self.settings = problem, settings
        self.name = self.name or type(problem).__name__

    def check(self) -> None:
        """Check before compilation that strategy and devices fit the problem."""
        shapes = jax.eval_shape(self._problem.init, jax.random.key(0))
        try:
            checkpoint.check_tree(shapes)
        except TypeError as error:
            raise ConfigError(f"{self.name}.init: {error}") from error
        check_meta_params(shapes, perturbed=strategies.perturbs(self.settings.strategy))
        self.metrics = check_evaluation(self._problem)
        check_evolution(self._problem, self.settings.strategy, self.settings.evolution)

    def measure(self) -> PlainDict:
        """Return the digest of the source code of the problem's class, if it has any."""
        source = registry.class_source(type(self._problem))
        return {} if source is None else {CODE: registry.digest(source)}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Raise `ConfigError` if the problem's class has changed since the run began."""
        now = ProblemStudy.measure(self).get(CODE)
        if now is not None and measured.get(CODE, now) != now:
            raise registry.other_code([type(self._problem).__name__])

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem."""
        return self._problem

    def about(self) -> PlainDict:
        """Return metadata that is saved with the meta-parameters."""
        return {}

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Write the meta-parameters."""
        about = {**self.about(), "generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the result of evolution, and the problem's own metrics over the generations."""
        self.draw_frame(meta_params, figures)
        records = RunDirectory(figures.parent).read_metrics("generation")
        if self.metrics and len(records):
            plot_metrics(records, self.metrics, figures / METRICS)

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the numbers as bars, unless there are more than `MOST_BARS`."""
        if numbers := evolved_numbers(meta_params, MOST_BARS):
            plot_numbers(numbers, figures / NUMBERS)

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        evolution_frames: int,
        measured: PlainMapping,
        check_stop: Callable[[], None],
    ) -> HeldOut | None:
        """Return None: a problem on its own has no contenders."""

    def title(self, generations: int) -> tuple[str, str]:
        """Return the problem's name and the number of generations."""
        return f"Evolving {self.name}", f"{generations} generations"

    def findings(self, meta_params: MetaParams, result: PlainMapping) -> list[str]:
        """Return no sentences: only the numbers are known."""
        return []

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return no tables."""
        return []
