"""A learned part of a learner: evolved, and judged against tuned hand-written ones."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.agents.limits import check_agents
from metaevo.agents.train_learner import Normalisation, TrainLearner, measure_normalisation
from metaevo.components import discovery
from metaevo.config import ConfigError
from metaevo.held_out import policy_loss, protocol, shapes, value_loss
from metaevo.held_out.comparison import hand_written
from metaevo.held_out.tuning import tuning_space
from metaevo.outer_loop.limits import check_evolution
from metaevo.report.page import Table
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.settings import check_baselines, make_parts
from purerl.learners import LEARNERS

LEARNER_NAMES = {"ppo": "PPO", "dqn": "DQN", "q_learning": "Q-learning"}


def what(component: str, slot: str) -> str:
    """Return what is evolved as a title says it: "a value loss", "tilted (a value loss)"."""
    noun = slot.removeprefix("make_").replace("_", " ")
    noun = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    return noun if component == slot else f"{component.replace('_', ' ')} ({noun})"


class LearnerStudy:
    """Conforms to `metaevo.studies.study.Study`."""

    captions: Mapping[str, str] = {
        "loss.png": "The discovered loss and its derivative beside hand-written ones; grey: errors "
        "that occur half-way through training with squared error.",
        "policy_loss.png": "The discovered policy loss beside PPO's clip and DPO, for advantages "
        "of one standard deviation up and down. Above: the drift, what the objective is below "
        "ratio times advantage; below: the objective's derivative, which pushes the policy.",
    }

    def __init__(self, settings: Any):
        """Build the parts.

        Args:
            settings: an instance of `experiment_class(...)`.

        Raises:
            ConfigError: if one of them cannot be built.
        """
        self.settings, self.parts = settings, make_parts(settings)
        self.tasks = self.parts.tasks(settings, self.parts.component.apply)
        self.name = f"evolve_{settings.evolve}"

    def check(self) -> None:
        """Find out before anything is compiled whether strategy, learner and environments fit."""
        settings, component = self.settings, self.parts.component
        check_baselines(settings, self.parts.slot)
        shapes = jax.eval_shape(component.init, jax.random.key(0))
        check_agents(settings, self.tasks, shapes)
        check_evolution(self.problem({}), settings.strategy, settings.evolution)
        if hasattr(settings, "evaluation"):  # a sweep has none
            tuning_space(settings.evaluation, settings)  # refuses what cannot be tuned over

    def measure(self) -> dict[str, Any]:
        """Return what makes the fitness of several environments comparable."""
        if len(self.tasks) == 1:
            return {}
        settings = self.settings
        _, function = hand_written(self.parts.slot, settings.learner)
        tasks = self.parts.tasks(settings, function)
        try:
            bounds = measure_normalisation(
                tasks, settings.hyperparams, np.int32(0), settings.fitness, seed=settings.run.seed
            )
        except ValueError as error:
            raise ConfigError(f"task.env: {error}") from error
        return {"normalisation": bounds._asdict()}

    def problem(self, measured: Mapping[str, Any]) -> TrainLearner:
        """Return the problem: train an agent in every environment with a candidate."""
        return TrainLearner(
            self.tasks,
            self.settings.hyperparams,
            self.parts.component,
            self.settings.fitness,
            self._normalisation(measured),
        )

    def save(self, directory: RunDirectory, meta_params: Any, generation: int) -> None:
        """Write the component, so that `metaevo.load` finds it."""
        settings = self.settings
        discovery.save(directory, settings.evolve, settings.component, meta_params, generation)

    def draw(self, meta_params: Any, figures: Path) -> None:
        """Draw a policy loss; a value loss is drawn over the errors that its comparison meets."""
        if self.parts.slot == "policy_loss":
            policy_loss.draw(
                self.parts.component.apply,
                meta_params,
                self.settings.hyperparams,
                figures / "policy_loss.png",
            )

    def compare(
        self,
        meta_params: Any,
        path: Path,
        *,
        evolution_frames: int,
        measured: Mapping[str, Any],
        check_stop: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Compare the component with tuned hand-written ones on held-out seeds."""
        if not self.settings.evaluation.seeds:
            return None
        return protocol.compare(
            self.settings,
            self.parts,
            self.parts.component.apply,
            meta_params,
            path=path,
            figures=path / "figures",
            evolution_frames=evolution_frames,
            normalisation=self._normalisation(measured),
            check_stop=check_stop,
        )

    def title(self, generations: int) -> tuple[str, str]:
        """Return what was evolved, and in which environments."""
        settings = self.settings
        names = settings.task.env
        names = names if isinstance(names, str) else ", ".join(names)
        part = what(settings.evolve, self.parts.slot)
        learner = LEARNER_NAMES.get(settings.learner, settings.learner)
        if not generations:
            params = settings.task.env_params
            where = ", ".join([names, *(f"{key} {value}" for key, value in params.items())])
            return f"{part[0].upper()}{part[1:]} for {learner} on another task", where
        return f"Evolving {part} for {learner} on {names}", f"{generations} generations"

    def findings(self, meta_params: Any, result: Mapping[str, Any]) -> list[str]:
        """Return what a loss looks like."""
        apply, hyperparams = self.parts.component.apply, self.settings.hyperparams
        if self.parts.slot == "value_loss":
            known = {"steepness": result["scale_ratio"]} if "scale_ratio" in result else {}
            observed = result.get("observed", known)
            return [shapes.value_loss_sentence(apply, meta_params, hyperparams, observed)]
        if self.parts.slot == "policy_loss":
            return [shapes.policy_loss_sentence(apply, meta_params, hyperparams)]
        return []

    def tables(self, result: dict[str, Any]) -> list[Table]:
        """Return the ablations of a value loss."""
        return value_loss.tables(result, LEARNERS[self.settings.learner].loss_scale)

    def _normalisation(self, measured: Mapping[str, Any]) -> Normalisation | None:
        bounds = measured.get("normalisation")
        if bounds is None:
            return None
        found = Normalisation(tuple(bounds["random"]), tuple(bounds["reference"]))
        if {len(each) for each in found} != {len(self.tasks)}:
            raise ConfigError(
                f"resolved.normalisation: must have {len(self.tasks)} numbers of each kind"
            )
        return found
