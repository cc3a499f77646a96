"""Study of learned parts of a learner, built from the settings of `metaevo evolve`."""

from pathlib import Path

from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.parts import classes, learners, resolve, seen
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies import unseen
from metaevo.studies.problem import PartsStudy
from metaevo.studies.settings import EvolveSettings, fixed_slots
from metaevo.tasks.binding import check_part
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Task


class LearnerStudy(PartsStudy):
    """Parts of a learner are evolved, and judged against hand-written ones."""

    def __init__(self, settings: EvolveSettings, run_path: Path | None = None):
        """Build the problem, as `problem_of` does.

        Raises:
            ConfigError: if a part or a task cannot be built.
        """
        problem, tasks = problem_of(settings, run_path), settings.evaluation.unseen
        elsewhere = None
        if tasks:
            unseen.check_names(tasks, unseen.WHERE)
            elsewhere = problem.on(tasks, unseen.WHERE)
            unseen.check_unseen(tasks, _known(settings, run_path), settings.learner)
        references = classes.make_parts(
            settings.evolve, settings.component, settings.learner
        ).references
        super().__init__(
            problem, settings, references, evaluation=settings.evaluation, unseen=elsewhere
        )

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Copy parts evolved by other runs."""
        for slot in fixed_slots(self.settings):
            resolve.keep(directory.path, slot, getattr(self.settings, slot.name))

    def seen(self) -> PlainDict:
        """Return the section of settings with the tasks of the evolution."""
        name = "tasks" if self.settings.tasks else "task"
        return {name: to_dict(getattr(self.settings, name))}


def problem_of(settings: EvolveSettings, run_path: Path | None = None) -> LearnerProblem:
    """Return the problem that settings describe, without the scales of its tasks.

    Args:
        settings: of an evolution.
        run_path: an existing run, whose copies of parts in other slots are used.

    Raises:
        ConfigError: if a part or a task cannot be built.
    """
    if settings.tasks is not None:
        unseen.check_names(settings.tasks, "tasks")
    parts = classes.make_parts(settings.evolve, settings.component, settings.learner)
    fillings = {
        slot.name: resolve.fill(slot, getattr(settings, slot.name), run_path)
        for slot in fixed_slots(settings)
    }
    try:
        problem = LearnerProblem(
            settings.learner,
            list(parts.by_slot.values()),
            settings.tasks or [Task(settings.task.env, settings.task.env_params)],
            train=settings.train,
            hyperparams=settings.hyperparams,
            fixed=fillings,
            fitness=settings.fitness,
            tasks_per_generation=settings.tasks_per_generation,
            scales=(),
        )
    except ConfigError as error:
        if (text := str(error)) != (reason := text.removeprefix("parts: ")):
            raise ConfigError(f"evolve = {settings.evolve!r}: {reason}") from None
        raise
    for name, filling in fillings.items():
        reference = getattr(settings, name)
        if reference not in learners.slot_of(settings.learner, name).functions:
            where = f"{name} = {reference!r}"
            setup = problem.experiment.settings
            environment = problem.experiment.environment
            check_part(where, filling.part, filling.meta_params, setup, environment)
    return problem


def _known(settings: EvolveSettings, run_path: Path | None) -> list[unseen.Seen]:
    """Return the environments that this evolution sees, and its learned parts have seen."""
    tasks, learner = settings.evaluation.unseen, settings.learner
    known = unseen.seen_by("", seen.in_settings(to_dict(settings)), tasks, learner)
    for slot in fixed_slots(settings):
        name = getattr(settings, slot.name)
        before = resolve.seen_by(slot, name, run_path)
        known += unseen.seen_by(f"{slot.name} = {name!r}", before, tasks, learner)
    return known
