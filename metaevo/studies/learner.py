"""Study of learned parts of a learner, compared with tuned hand-written parts."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import jax

from metaevo.comparison import entries, protocol, unseen
from metaevo.comparison.inspector import PartInspector
from metaevo.config import ConfigError, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.config.references import short_name
from metaevo.evolution.checks import check_evaluation
from metaevo.evolution.problem import MetaProblem
from metaevo.parts import channels, resolve, saved, seen
from metaevo.reports import parts
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut, Unseen, pooled
from metaevo.studies.settings import EvolveSettings, experiment_class, fixed_slots, make_experiment
from metaevo.studies.study import TRAINING, Study
from metaevo.tasks.binding import Experiment
from metaevo.tasks.distributions import bind
from metaevo.tasks.memory import check_agents
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.scale import measure_scale
from metaevo.tasks.task import Scale
from purerl.types import MetaParams


def _pooled(judged: Unseen, evolution_frames: int) -> HeldOut | None:
    """Return the comparison on all tasks of the evolution, or warn that none has a scale."""
    everything = pooled(judged)
    if everything is None:
        warnings.warn(
            f"no comparison: on none of {', '.join(judged['tasks'])} is the tuned reference "
            "better than random play, so there is no scale",
            stacklevel=3,
        )
        return None
    frames = sum(each["frames_per_agent"] for each in judged["tasks"].values())
    return {
        **everything,
        "frames_per_agent": frames,
        "evolution_frames": evolution_frames,
        "seen": judged,
    }


class LearnerStudy(Study):
    """Parts of a learner are evolved, and compared with hand-written ones."""

    free = (*TRAINING, "channel", "fitness.")

    def __init__(self, settings: EvolveSettings, run_path: Path | None = None):
        """Build the parts, as `make_experiment` does.

        Raises:
            ConfigError: if a part or a task cannot be built.
        """
        if settings.evaluation.unseen and settings.channel != channels.NONE:
            raise ConfigError(
                f"evaluation.unseen: no channel is heard in other tasks; with channel = "
                f"{settings.channel!r}, leave them out"
            )
        self.settings = first = settings
        where = ""
        try:
            for name, change in list((settings.tasks or {}).items())[:1]:
                where = f"tasks.{name}: "
                first = unseen.settings_of(settings, name, change)
            self.experiment = make_experiment(first, run_path)
            """of the first task, used by figures"""
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None
        self.evolved = self.experiment.evolved
        self.seen = unseen.build_all(settings, settings.tasks, self.experiment, "tasks")
        self.distributions = [
            bind(name, change, self.seen[name]) for name, change in (settings.tasks or {}).items()
        ]
        """the settings of each named task, with their distributions"""
        functions = self.evolved.functions()
        example = jax.eval_shape(self.evolved.init, jax.random.key(0))
        self.tasks = [
            each.task(functions, example) for each in self.seen.values() or [self.experiment]
        ]
        self.unseen: dict[str, Experiment] = {}
        if settings.evaluation.unseen:
            self.unseen = unseen.unseen_tasks(settings, self._known(run_path), self.experiment)
        self.name = f"evolve_{'_'.join(self.evolved.names.values())}"
        self._inspector = PartInspector(self.experiment)
        self.captions = {}
        for part in self.evolved.by_slot.values():
            self.captions |= parts.captions(part)

    @classmethod
    def settings_class(cls, raw: PlainDict, component: str | None = None) -> type[EvolveSettings]:
        """Return the class of the settings, which do not name this study."""
        raw.pop("study", None)
        return experiment_class(raw, component)

    @classmethod
    def make(cls, settings: Any, run_path: Path | None = None) -> Self:
        """Return the study of the settings."""
        return cls(settings, run_path)

    def _known(self, run_path: Path | None) -> list[unseen.Seen]:
        """Return the environments that this evolution sees, and its learned parts have seen."""
        settings = self.settings
        known = unseen.seen_by("", seen.in_settings(to_dict(settings)), settings)
        for slot in fixed_slots(settings):
            name = getattr(settings, slot.name)
            before = resolve.seen_by(slot, name, run_path)
            known += unseen.seen_by(f"{slot.name} = {name!r}", before, settings)
        return known

    def check(self) -> None:
        """Check before compilation that strategy, learner and environments fit together."""
        problem = self.problem({})
        check_agents(problem, self.tasks, self.settings)
        if self.seen:
            try:
                check_evaluation(problem)
            except TypeError as error:  # a learner of the user's own without a traced length
                raise ConfigError(f"tasks: {error}") from None
        entries.check(self.experiment)

    def measure(self) -> PlainDict:
        """Return the scale of each task, where fitness has one."""
        if len(self.tasks) == 1:
            return {}
        tasks = Progress(self.seen.items(), desc="measuring the scale of each task", leave=False)
        settings = self.settings
        ends = [
            measure_scale(
                name,
                each.task(each.references(), None),
                each.settings.hyperparams,
                settings.fitness,
                seed=settings.run.seed,
                quick=settings.run.quick,
            )
            for name, each in tasks
        ]
        scales = {key: [getattr(each, key) for each in ends] for key in Scale._fields}
        return {"normalisation": scales}

    def keep(self, directory: RunDirectory, measured: PlainMapping) -> None:
        """Copy parts evolved by other runs."""
        for slot in fixed_slots(self.settings):
            resolve.keep(directory.path, slot, getattr(self.settings, slot.name))
        channels.keep(directory.path, self.settings.channel)

    def problem(self, measured: PlainMapping) -> MetaProblem:
        """Return the problem: train agents with a candidate."""
        settings, scales = self.settings, measured.get("normalisation")
        if not self.seen:
            task = self.tasks[0]._replace(hyperparams=settings.hyperparams)
            return LearnerProblem.on([task], self.evolved, settings.fitness)
        distributions = self.distributions
        if scales is not None:
            ends = [scales[key] for key in Scale._fields]
            if {len(each) for each in ends} != {len(distributions)}:
                raise ConfigError(
                    f"resolved.normalisation: must have {len(distributions)} numbers of each kind"
                )
            distributions = [
                each._replace(scale=Scale(*own))
                for each, *own in zip(distributions, *ends, strict=True)
            ]
        count = settings.tasks_per_generation or len(distributions)
        return LearnerProblem.on(distributions, self.evolved, settings.fitness, count)

    def save(self, directory: RunDirectory, meta_params: MetaParams, generation: int) -> None:
        """Save the parts in the format of `metaevo.load`, with the tasks that they have seen."""
        tasks = seen.section(to_dict(self.settings))
        saved.save(directory, self.evolved, meta_params, generation, tasks)

    def draw_frame(self, meta_params: MetaParams, figures: Path) -> None:
        """Draw every evolved part."""
        for found in self._inspector.found(meta_params).values():
            parts.draw(found, figures)

    def compare(
        self,
        learned: PlainMapping,
        path: Path,
        *,
        evolution_frames: int,
        measured: PlainMapping,
        check_stop: Callable[[], None],
    ) -> HeldOut | None:
        """Compare the parts with tuned hand-written ones, on unseen tasks too."""
        if not self.settings.evaluation.seeds:
            return None
        judged = None
        if self.unseen:  # first, as its finished tasks are kept when the rest is interrupted
            judged = unseen.judge(
                self.unseen,
                learned,
                path,
                evolution_frames=evolution_frames,
                check_stop=check_stop,
            )
        result: HeldOut | None
        if self.seen:
            on_tasks = unseen.judge(
                self.seen,
                learned,
                path,
                evolution_frames=evolution_frames,
                check_stop=check_stop,
                kept=unseen.SEEN,
            )
            result = _pooled(on_tasks, evolution_frames)
        else:
            result = protocol.compare(
                self._inspector,
                learned=learned,
                path=path,
                evolution_frames=evolution_frames,
                check_stop=check_stop,
            )
        if result is not None and judged is not None:
            result["unseen"] = judged
        return result

    def title(self, generations: int) -> tuple[str, str]:
        """Return a title with the evolved parts and the environments, and a subtitle."""
        evolved = " and ".join(self.evolved.names.values())
        what = f"{evolved} for {short_name(self.settings.learner)}"
        names = ", ".join(dict.fromkeys(each.name for each in self.tasks))
        if generations:
            return f"Evolving {what} on {names}", f"{generations} generations"
        if self.unseen:
            return f"{what} on unseen tasks", ", ".join(self.unseen)
        params = self.settings.task.env_params
        where = ", ".join([names, *(f"{key} {value}" for key, value in params.items())])
        return f"{what} on another task", where

    def findings(self, meta_params: MetaParams, result: PlainMapping) -> list[str]:
        """Return sentences that describe the evolved parts."""
        sentences: list[str] = []
        for slot, found in self._inspector.found(meta_params).items():
            sentences += parts.findings(found, result.get("observed", {}).get(slot, {}))
        return sentences
