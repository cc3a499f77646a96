"""Study of a `LearnerProblem` from Python: its parts are saved, drawn and described."""

from pathlib import Path
from typing import Any

from metaevo.comparison.inspector import PartInspector
from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainMapping
from metaevo.config.references import reference_of
from metaevo.evolution.checks import check_evaluation
from metaevo.parts import saved
from metaevo.parts.classes import PART
from metaevo.parts.part import Parts
from metaevo.reports import parts
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.study import ProblemStudy
from metaevo.tasks.memory import check_agents
from metaevo.tasks.problem import LearnerProblem
from purerl.types import MetaParams


class PartsStudy(ProblemStudy):
    """Parts of a learner are evolved and reported; `metaevo.judge` compares them."""

    def __init__(self, problem: LearnerProblem, settings: Any):
        """Bind a problem and the settings of its evolution."""
        super().__init__(problem, settings)
        self.learner_problem = problem
        self.name = f"evolve_{'_'.join(problem.parts.by_slot)}"
        references = {
            slot: reference_of(PART, type(part)) for slot, part in problem.parts.by_slot.items()
        }
        self.parts = Parts(problem.parts.by_slot, references)
        self._inspector = PartInspector(
            problem.experiment, fitness=problem.weights, seed=settings.run.seed
        )
        self.captions = {}
        for part in problem.parts.by_slot.values():
            self.captions |= parts.captions(part)

    def check(self) -> None:
        """Check before compilation that strategy, learner and environments fit together."""
        problem = self.learner_problem
        check_agents(problem, problem.bound, self.settings)
        try:
            check_evaluation(problem)
        except TypeError as error:  # a learner of the user's own without a traced length
            raise ConfigError(f"tasks: {error}") from None

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the parts in the format of `metaevo.load`, with the tasks that they have seen."""
        tasks = {name: to_dict(task) for name, task in self.learner_problem.named.items()}
        saved.save(directory, self.parts, meta_params, generation, {"tasks": tasks})

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw every evolved part."""
        for found in self._inspector.found(meta_params).values():
            parts.draw(found, figures)

    def title(self, generations: int) -> tuple[str, str]:
        """Return a title with the evolved parts and the environments, and a subtitle."""
        slots, names = " and ".join(self.parts.by_slot), ", ".join(self.learner_problem.tasks)
        learner = self.learner_problem.learner
        return f"Evolving {slots} for {learner} on {names}", f"{generations} generations"

    def findings(self, meta_params: MetaParams, result: PlainMapping) -> list[str]:
        """Return sentences that describe the evolved parts."""
        sentences: list[str] = []
        for found in self._inspector.found(meta_params).values():
            sentences += parts.findings(found, {})
        return sentences
