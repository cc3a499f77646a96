"""Study of a `LearnerProblem`: its parts are saved, drawn, described and judged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.config.references import reference_of, short_name
from metaevo.evolution.checks import check_evaluation
from metaevo.evolution.problem import Contender, MetaProblem
from metaevo.judging.judge import Judgement
from metaevo.parts import saved
from metaevo.parts.classes import PART
from metaevo.parts.part import LEARNED, Parts
from metaevo.reports import parts
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies.evaluation import EvaluationConfig
from metaevo.studies.inspector import PartInspector
from metaevo.studies.study import PURPOSES, Study
from metaevo.tasks.memory import check_agents, check_training
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Scale
from purerl.types import MetaParams


class PartsStudy(Study):
    """Parts of a learner are evolved and reported; with an `evaluation` they are judged."""

    def __init__(
        self,
        problem: LearnerProblem,
        settings: Any,
        references: Mapping[str, str] | None = None,
        *,
        evaluation: EvaluationConfig | None = None,
        unseen: LearnerProblem | None = None,
    ):
        """Bind a problem and the settings of its evolution.

        Args:
            problem: the parts on the tasks of the evolution.
            settings: with the sections `strategy`, `evolution` and `run`.
            references: names of the parts' classes, by their slots.
            evaluation: of the judgement; by default there is none.
            unseen: the parts on the tasks of `evaluation.unseen`.
        """
        self.settings, self.evaluation, self.unseen = settings, evaluation, unseen
        self.learner_problem = self._problem = problem
        by_slot = problem.parts.by_slot
        self.parts = Parts(
            by_slot,
            references or {slot: reference_of(PART, type(part)) for slot, part in by_slot.items()},
        )
        self.name = f"evolve_{'_'.join(self.parts.names.values())}"
        self._inspector = PartInspector(problem, settings.run.seed)
        self.captions = {}
        for part in by_slot.values():
            self.captions |= parts.captions(part)

    def check(self) -> None:
        """Check before compilation that strategy, learner, environments and judgement fit."""
        problem = self.learner_problem
        check_agents(problem, problem.bound, self.settings)
        try:
            check_evaluation(problem)
        except TypeError as error:  # a learner of the user's own without a traced length
            raise ConfigError(f"tasks: {error}") from None
        example = jax.eval_shape(problem.init, jax.random.key(0))
        for one in self.unseen.bound if self.unseen else ():
            check_training(one.name, one, one.hyperparams, example, kept=1, at_once=1)
        self.judgements({LEARNED: example})

    def measure(self) -> PlainDict:
        """Return the scale of each of several tasks, unless the problem has them."""
        problem, run = self.learner_problem, self.settings.run
        if len(problem.bound) == 1 or problem.bound[0].scale is not None:
            return {}
        ends = problem.measure_scales(seed=run.seed, quick=run.quick)
        scales = {key: [getattr(each, key) for each in ends] for key in Scale._fields}
        return {"normalisation": scales}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Write nothing: a problem from Python has no files of its own."""

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem, with the scales that were measured."""
        scales = measured.get("normalisation")
        if scales is not None:
            columns = [scales[key] for key in Scale._fields]
            self.learner_problem.use_scales([Scale(*row) for row in zip(*columns, strict=False)])
        return self.learner_problem

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the parts in the format of `metaevo.load`, with the tasks that they have seen."""
        saved.save(directory, self.parts, meta_params, generation, self.seen())

    def seen(self) -> PlainDict:
        """Return the section of settings with the tasks of the evolution."""
        named = self.learner_problem.named
        return {"tasks": {name: to_dict(task) for name, task in named.items()}}

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw every evolved part."""
        for found in self._inspector.found(meta_params).values():
            parts.draw(found, figures)

    def judgements(self, learned: Mapping[str, MetaParams]) -> dict[str, Judgement]:
        """Return the judgements on the unseen tasks and on those of the evolution, by names.

        `learned` are the meta-parameters found by each evolution.
        """
        config = self.evaluation
        if config is None or not config.seeds:
            return {}
        problems = {UNSEEN: self.unseen, SCORES: self.learner_problem}
        found = {}
        for name, problem in problems.items():
            if problem is None:
                continue
            rivals = [Contender(each, problem, found, LEARNED) for each, found in learned.items()]
            try:
                rivals += problem.contenders(config.contenders, config.own)
                found[name] = Judgement(
                    rivals,
                    config.budget,
                    space=config.space,
                    seed=self.settings.run.seed,
                    purpose=PURPOSES[name],
                )
            except ConfigError as error:
                raise ConfigError(f"evaluation.{error}") from None
        return found

    def title(self, generations: int) -> tuple[str, str]:
        """Return a title with the evolved parts and the environments, and a subtitle."""
        problem = self.learner_problem
        what = f"{' and '.join(self.parts.names.values())} for {short_name(problem.learner)}"
        names = ", ".join(dict.fromkeys(problem.tasks))
        if generations:
            return f"Evolving {what} on {names}", f"{generations} generations"
        if self.unseen:
            return f"{what} on unseen tasks", ", ".join(self.unseen.tasks)
        params = next(iter(problem.named.values())).env_params
        where = ", ".join([names, *(f"{key} {value}" for key, value in params.items())])
        return f"{what} on another task", where

    def findings(self, meta_params: MetaParams) -> list[str]:
        """Return sentences that describe the evolved parts."""
        found = self._inspector.found(meta_params).values()
        return [sentence for each in found for sentence in each.part.findings(each)]
