"""A study: an evolution of a problem, how its result is judged, drawn and reported.

The lifecycle of a run, the report and the trackers depend on `Study` only. This one is of any
`MetaProblem`; `metaevo.studies.problem.PartsStudy` is of parts of a learner.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.config.code import class_source, digest, other_code
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.checks import (
    check_evaluation,
    check_evolution,
    check_meta_params,
    check_problem,
)
from metaevo.evolution.problem import Contender, MetaParams, MetaProblem
from metaevo.evolution.seeding import Purpose
from metaevo.judging.budget import Budget
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.reports.plots import Panel, plot_numbers, plot_panels, read_column
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory

CODE = "problem"
"""Key of the digest of the problem's source code in the resolved part of config.yaml."""
METRICS, NUMBERS = "metrics.png", "meta_params.png"
CAPTIONS = {
    METRICS: "The problem's own metrics: means over the candidates.",
    NUMBERS: "The evolved meta-parameters.",
}
MOST_BARS = 64
"""Maximum count of numbers in meta-parameters that are drawn."""
PURPOSES = {UNSEEN: Purpose.UNSEEN, SCORES: Purpose.HELD_OUT}
"""Purposes of the seeds of the judgements, in their order."""
TITLES = {UNSEEN: "judging on unseen tasks", SCORES: "judging"}


class Study:
    """An evolution of a problem, judged against its contenders."""

    settings: Any
    name = ""
    """name of the folder that contains its runs"""
    metrics: Sequence[str] = ()
    """metrics of an evaluation, drawn over the generations"""
    captions: Mapping[str, str]
    """captions of the figures, by file name"""

    def __init__(self, problem: MetaProblem, settings: Any):
        """Bind a problem and the settings of its evolution."""
        check_problem(problem, "problem")
        self._problem, self.settings = problem, settings
        self.name = type(problem).__name__
        self.captions = {**problem.captions, **CAPTIONS}

    def check(self) -> None:
        """Raise `ConfigError`, before anything is compiled, if the settings are invalid."""
        shapes = jax.eval_shape(self._problem.init, jax.random.key(0))
        try:
            checkpoint.check_tree(shapes)
        except TypeError as error:
            raise ConfigError(f"{self.name}.init: {error}") from error
        strategy = self.settings.strategy.build()
        check_meta_params(shapes, perturbed=strategy.perturbs)
        self.metrics = check_evaluation(self._problem)
        check_evolution(self._problem, strategy, self.settings.evolution)
        self.judgements({LEARNED: shapes})

    def measure(self) -> PlainDict:
        """Return the measurements needed before evolution, as plain data that the run saves.

        By default, the digest of the source code of the problem's class, if it has any.
        """
        kind: Any = type(self._problem)
        source = class_source(kind)
        return {} if source is None else {CODE: digest(source)}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Write the files that a run needs in addition to its settings; by default none.

        `measured` is what `measure` returned, now or when the run began.

        Raises:
            ConfigError: if the run cannot be resumed because its inputs have changed.
        """
        now = Study.measure(self).get(CODE)
        if now is not None and measured.get(CODE, now) != now:
            raise other_code([type(self._problem).__name__])

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem."""
        return self._problem

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the meta-parameters evolved in some generations to the run's directory."""
        about = {"generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the result of evolution, and the problem's own metrics over the generations."""
        self.draw_frame(meta_params, figures)
        if self.metrics:
            records = RunDirectory(figures.parent).read_metrics("generation")
            generation = read_column(records, "generation").astype(int)
            panels = [
                Panel({"": (generation, read_column(records, name))}, "generation", name)
                for name in self.metrics
            ]
            if len(records):
                plot_panels(panels, figures / METRICS)

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw the figures that the report animates over the generations, at most a second each.

        A problem without pictures of its own has its numbers as bars, at most `MOST_BARS`.
        """
        if type(self._problem).draw is not MetaProblem.draw:
            self._problem.draw(meta_params, figures)
        elif numbers := evolved_numbers(meta_params, MOST_BARS):
            plot_numbers(numbers, figures / NUMBERS)

    def judgements(self, learned: Mapping[str, MetaParams]) -> dict[str, Judgement]:
        """Return the judgements on the unseen tasks and on those of the evolution, by names.

        `learned` are the meta-parameters found by each evolution. There is none without
        contenders, or with `evaluation.seeds` = 0.
        """
        seed, seeds = self.settings.run.seed, self.settings.evaluation.seeds
        found: dict[str, Judgement] = {}
        for name, purpose in PURPOSES.items() if seeds else ():
            problem = self._problem.unseen() if name == UNSEEN else self._problem
            others = [] if problem is None else problem.contenders()
            if problem is None or not others:
                continue
            for each in others:
                if each.name.split()[:1] == [LEARNED]:
                    raise ConfigError(f"contenders: {each.name!r}: is the evolved one; rename it")
            rivals = [Contender(each, problem, point, LEARNED) for each, point in learned.items()]
            budget = Budget(settings=0, seeds=seeds)
            found[name] = Judgement([*rivals, *others], budget, seed=seed, purpose=purpose)
        return found

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        check_stop: Callable[[], None],
        only_unseen: bool = False,
    ) -> dict[str, Scores]:
        """Judge the results and the contenders on keys that evolution has not seen.

        Args:
            learned: the meta-parameters found by each evolution, by name of the contender;
                figures are shown for the first.
            path: the run's directory; an interrupted judgement goes on from its files there.
            check_stop: raises if the run should stop; called often.
            only_unseen: whether to judge on unseen tasks only.

        Returns:
            the scores by the name of the judgement, `SCORES` or `UNSEEN`.
        """
        return {
            name: run(judgement, path / f"{name}.npz", TITLES[name], check_stop=check_stop)
            for name, judgement in self.judgements(learned).items()
            if name == UNSEEN or not only_unseen
        }

    def title(self, generations: int) -> tuple[str, str]:
        """Return title and subtitle of the report; 0 generations mean a report on another task."""
        return f"Evolving {self.name}", (
            f"{generations} generations" if generations else "judged with other settings"
        )

    def findings(self, meta_params: MetaParams) -> list[str]:
        """Return sentences that describe the result."""
        return list(self._problem.findings(meta_params))


def evolved_numbers(meta_params: MetaParams, most: int) -> dict[str, float]:
    """Return the numbers in a tree of arrays by name; none if there are more than `most`."""
    leaves = jax.tree_util.tree_leaves_with_path(meta_params)
    arrays = [(jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(leaf))
              for path, leaf in leaves]  # fmt: skip
    real = all(np.issubdtype(each.dtype, np.number) for _, each in arrays)
    if not real or not 0 < sum(each.size for _, each in arrays) <= most:
        return {}
    return {
        name + (f"[{', '.join(map(str, index))}]" if index else ""): float(value)
        for name, array in arrays
        for index, value in np.ndenumerate(array)
    }
