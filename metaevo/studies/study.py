"""A study: a problem with the settings of its evolution, as a run needs them.

It checks, measures, saves, judges and draws. The problem says what to judge against and, unless it
is of parts of a learner, how its points are drawn and described.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from metaevo.config import ConfigError, PlainDict, PlainMapping, to_dict
from metaevo.evolution import devices
from metaevo.evolution.problem import (
    Contender,
    MetaParams,
    MetaProblem,
    Purpose,
    check_problem,
    keys_for,
)
from metaevo.evolution.rows import RowMap, choose_chunk_size
from metaevo.evolution.strategy import Strategy, check_evolution
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts import learners, records
from metaevo.parts.part import LEARNED
from metaevo.reports.pictures import PICTURES, Evolved, Picture
from metaevo.reports.plots import Panel, draw_panels, read_column, save_figure
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies.settings import EvaluationConfig, EvolutionSettings, EvolveSettings
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Scale
from purerl.parts import training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CODE, SCALES = "problem", "normalisation"
"""Keys of the resolved part of config.yaml: the digest of the problem's source code, and the scales
of its tasks."""
METRICS, NUMBERS = "metrics.png", "meta_params.png"
CAPTIONS = {
    METRICS: "The problem's own metrics: means over the candidates.",
    NUMBERS: "The evolved meta-parameters.",
}
MOST_BARS = 64
"""Maximum count of numbers in meta-parameters that are drawn."""
AGENTS = 16
"""Agents that provide predictions and targets for figures."""
DIVERGED = 1e15
"""Limit of predictions and targets, because larger squares overflow float32."""
PURPOSES = {SCORES: Purpose.HELD_OUT, UNSEEN: Purpose.UNSEEN}
"""Purposes of the seeds of the judgements, in their order."""
TITLES = {SCORES: "judging", UNSEEN: "judging on unseen tasks"}


class Study:
    """An evolution of a problem, judged against its contenders."""

    def __init__(
        self, problem: MetaProblem, settings: EvolutionSettings, strategy: Strategy | None = None
    ):
        """Bind a problem and the settings of its evolution; `strategy` replaces that in them."""
        check_problem(problem, "problem")
        self.problem, self.settings, self._strategy = problem, settings, strategy
        self.name = type(problem).__name__
        """name of the folder that contains its runs"""
        self.captions = dict(problem.captions)
        """captions of the figures, by file name"""
        if isinstance(problem, LearnerProblem):
            self.name = f"evolve_{'_'.join(problem.part_names)}"
            for slot, part in problem.parts.by_slot.items():
                picture = picture_of(slot)
                self.captions |= {picture.file: picture.caption} if picture else {}
                self.captions |= part.captions
        self.captions |= CAPTIONS
        self._metrics: Sequence[str] = ()

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy of its evolutions; `ConfigError` if it cannot be made."""
        own = self._strategy
        return self.settings.strategy.build() if own is None else own

    def check(self) -> None:
        """Raise `ConfigError`, before anything is compiled, if the settings are invalid."""
        problem, config = self.problem, self.settings.evolution
        shapes = jax.eval_shape(problem.init, jax.random.key(0))
        strategy = self.strategy
        try:
            checkpoint.check_tree(shapes)
        except TypeError as error:
            raise ConfigError(f"{self.name}.init: {error}") from error
        check_evolution(problem, strategy, config)  # before `evaluate` is traced
        if isinstance(problem, LearnerProblem):
            problem.check_memory(strategy.population_size, config)
        else:
            from metaevo.evolution.evaluation import check_evaluation

            self._metrics = check_evaluation(problem)
        elsewhere = problem.unseen()
        for one in elsewhere.bound if isinstance(elsewhere, LearnerProblem) else ():
            one.check_memory(one.name, shapes, kept=1, at_once=1)
        self.judgements({LEARNED: shapes})

    def measure(self, check_stop: Callable[[], None] = lambda: None) -> PlainDict:
        """Return what a run measures before evolution and saves, as plain data.

        This is the digest of the source code of the problem's class, if it is the user's; of a
        learner on several tasks also the scale of each, unless it is known. `check_stop` is called
        often, and raises to stop.
        """
        problem, run, source = self.problem, self.settings.run, self._digest()
        measured: PlainDict = {} if source is None else {CODE: source}
        if isinstance(problem, LearnerProblem) and len(problem.bound) > 1 and not problem.scales:
            from metaevo.tasks.scales import measure_scales

            ends = measure_scales(problem, seed=run.seed, quick=run.quick, check_stop=check_stop)
            measured[SCALES] = {key: [getattr(each, key) for each in ends] for key in Scale._fields}
        return measured

    def _digest(self) -> str | None:
        if type(self.problem) is LearnerProblem:  # no class of the user's
            return None
        from metaevo.config import code

        kind: Any = type(self.problem)
        source = code.class_source(kind)
        return None if source is None else code.digest(source)

    def use(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem with what was measured, now or when the run began."""
        scales = measured.get(SCALES)
        if scales is not None and isinstance(self.problem, LearnerProblem):
            columns = [scales[key] for key in Scale._fields]
            self.problem.scales = tuple(Scale(*row) for row in zip(*columns, strict=True))
        return self.problem

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Copy parts evolved by other runs into a run that uses them.

        Raises:
            ConfigError: if the run cannot be resumed because its inputs have changed.
        """
        source = self._digest()
        if source is not None and measured.get(CODE, source) != source:
            from metaevo.config import code

            raise code.other_code([type(self.problem).__name__])
        if isinstance(self.settings, EvolveSettings):
            for slot in self.settings.fixed_slots():
                name = getattr(self.settings, slot.name)
                if name not in slot.functions:
                    from metaevo.parts import resolve

                    resolve.keep(directory.path, slot, name)

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the meta-parameters evolved in some generations to the run's directory.

        Parts of a learner are saved for `metaevo.load`, with the tasks that they have seen.
        """
        if isinstance(self.problem, LearnerProblem):
            seen = {"tasks": {name: to_dict(task) for name, task in self.problem.named.items()}}
            records.write(directory, self.problem.parts, meta_params, generation, seen)
        else:
            about = {"generation": generation}
            checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(
        self, meta_params: MetaParams, figures: Path, records: Sequence[PlainMapping] = ()
    ) -> None:
        """Draw the result of evolution, and the problem's own metrics over the generations."""
        drawn = self.pictures(meta_params)
        if self._metrics and len(records):
            generation = read_column(records, "generation").astype(int)
            drawn[METRICS] = draw_panels(
                [Panel({"": (generation, read_column(records, name))}, "generation", name)
                 for name in self._metrics]
            )  # fmt: skip
        for name, figure in drawn.items():
            save_figure(figure, figures / name)

    def pictures(self, meta_params: MetaParams) -> "dict[str, Figure]":
        """Return the figures that the report animates over the generations, by file name.

        A problem without its own has its numbers as bars, at most `MOST_BARS`.
        """
        drawn: dict[str, Figure] = {}
        if isinstance(self.problem, LearnerProblem):
            for found in self._evolved(meta_params):
                if picture := picture_of(found.part.slot):
                    drawn[picture.file] = draw_panels(picture.panels(found), **picture.layout)
                drawn |= found.part.draw(found)
        elif own := self.problem.draw(meta_params):
            drawn |= own
        elif numbers := evolved_numbers(meta_params, MOST_BARS):
            from metaevo.reports.results import draw_numbers

            drawn[NUMBERS] = draw_numbers(numbers)
        return drawn

    def findings(self, meta_params: MetaParams) -> list[str]:
        """Return sentences that describe the result."""
        if not isinstance(self.problem, LearnerProblem):
            return list(self.problem.findings(meta_params))
        found = self._evolved(meta_params)
        return [text for each in found for text in each.part.findings(each)]

    def _evolved(self, meta_params: MetaParams) -> list[Evolved]:
        """Return the evolved parts of a learner, on the first task."""
        problem: Any = self.problem
        meta_params, bound = jax.device_get(meta_params), problem.bound[0]
        learner, updates = learners.find(problem.learner), bound.learner.config.num_updates
        return [
            Evolved(part, problem.parts.of(meta_params, slot), learner, bound.hyperparams,
                    lambda: self._value_targets, updates)
            for slot, part in problem.parts.by_slot.items()
        ]  # fmt: skip

    @cached_property
    def _value_targets(self) -> np.ndarray:
        """Predictions and targets [2, samples] of agents trained half-way with hand-written parts.

        Without the agents that diverged; a single error of one if all did.
        """
        problem: Any = self.problem
        task = problem.reference()
        learner: Any = task.learner
        keys = keys_for(self.settings.run.seed, Purpose.ILLUSTRATION, AGENTS)

        def observe(key: jax.Array) -> Any:
            settings = devices.as_inputs((task.hyperparams, None, task.env_params))
            state = learner.init(jax.random.wrap_key_data(key), *settings)
            half = learner.config.num_updates // 2
            update = partial(training.update, learner)
            state = jax.lax.fori_loop(0, half, lambda _, state: update(state, *settings)[0], state)
            return learner.value_targets(state, task.hyperparams, task.env_params)

        chunk_size = choose_chunk_size(AGENTS, task.working_set(None))
        seen = RowMap(observe, chunk_size=chunk_size)(jax.random.key_data(keys))
        errors = np.stack([each.ravel() for each in seen])
        usable = errors[:, np.all(np.abs(errors) < DIVERGED, axis=0)]
        return usable if usable.size else np.array([[1.0], [0.0]], np.float32)

    def judgements(
        self, learned: Mapping[str, MetaParams], *, only_unseen: bool = False
    ) -> dict[str, Judgement]:
        """Return the judgements on the tasks of the evolution and on unseen ones, by names.

        `learned` are the meta-parameters found by each evolution. There is none without
        contenders, or with `evaluation.seeds` = 0.
        """
        config, found = self.settings.evaluation, {}
        chosen: tuple[Any, ...] = ()
        space: PlainDict = {}
        if isinstance(config, EvaluationConfig):  # of parts
            chosen, space = (config.contenders, config.own), config.space
        for name, purpose in PURPOSES.items() if config.seeds else ():
            problem: Any = self.problem.unseen() if name == UNSEEN else self.problem
            if problem is None or (only_unseen and name != UNSEEN):
                continue
            try:
                if not (others := problem.contenders(*chosen)):
                    continue
                for each in others:
                    if each.name.split()[:1] == [LEARNED]:
                        raise ConfigError(
                            f"contenders: {each.name!r}: is the evolved one; rename it"
                        )
                own = [Contender(each, problem, point, LEARNED) for each, point in learned.items()]
                found[name] = Judgement(
                    [*own, *others],
                    config.budget(unseen=name == UNSEEN),
                    space=space,
                    seed=self.settings.run.seed,
                    purpose=purpose,
                )
            except ConfigError as error:
                raise ConfigError(f"evaluation.{error}") from None
        return found

    def compare(
        self,
        learned: Mapping[str, MetaParams],
        path: Path,
        *,
        check_stop: Callable[[], None],
        only_unseen: bool = False,
    ) -> Iterator[tuple[str, Scores]]:
        """Carry out the `judgements`; yield names and scores.

        An interrupted judgement goes on from its file in the run's directory `path`. `check_stop`
        is called often, and raises if the run should stop.
        """
        for name, judgement in self.judgements(learned, only_unseen=only_unseen).items():
            file = path / f"{name}.npz"
            yield name, run(judgement, file, TITLES[name], check_stop=check_stop)


def picture_of(slot: str) -> Picture | None:
    """Return the picture of a slot, if it has one."""
    if slot in PICTURES:
        return PICTURES[slot]
    from metaevo.reports import slots

    return slots.PICTURES.get(slot)


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
