"""Trained agents: their policies, learning curves and scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, PlainDict, files, from_dict
from metaevo.config.code import admit
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.tasks.agents import Agents, Row
from metaevo.tasks.fitness import mean_returns
from metaevo.tasks.population import Population
from metaevo.training.settings import training_class
from purerl.types import Learner, PyTree

POLICIES = "policies.npz"
"""File of the trained policies, with their learning curves."""
WHOLE = "whole training (fitness)"
"""The row of evaluation.json with the scores; a sweep maximises the same."""

GREEDY = "evaluation of the greedy policy"
"""Name of the evaluations during a training, in figures and tables."""
CURVES = "learning_curves.png"


@dataclass(frozen=True)
class TrainingResult:
    """The result of `metaevo.train`: agents that differ in their random keys only."""

    learner: Learner
    """with its environment, as `purerl.acting` takes it"""
    policies: PyTree
    """each leaf [seeds, ...]"""
    steps: np.ndarray
    """[points] environment steps of an agent's training at the points of the learning curves"""
    returns: np.ndarray
    """[seeds, points] mean return of the episodes that finished since the last point, or NaN"""
    scores: np.ndarray
    """[seeds] fitness of the whole training; NaN for an agent that diverged"""
    diverged: np.ndarray
    """[seeds] whether a parameter of the policy is not finite"""
    evaluations: np.ndarray | None = None
    """[seeds, points] mean return of the last evaluation of the greedy policy since the last point,
    or NaN; None if the fitness needs no evaluations"""
    path: Path | None = None
    """the run directory, with a report and figures; None without one"""

    def table(self) -> list[PlainDict]:
        """Return a record for each agent and point of its learning curves."""
        curves = {"return": self.returns}
        if self.evaluations is not None:
            curves["evaluation_return"] = self.evaluations
        return [
            {"seed": seed, "steps": steps}
            | {name: float(each[seed, point]) for name, each in curves.items()}
            for seed in range(len(self.returns))
            for point, steps in enumerate(self.steps.tolist())
        ]

    def draw(self, folder: str | Path) -> list[Path]:
        """Draw the mean learning curve with its 95% interval over agents; return the PNG file."""
        from metaevo.reports import plots

        curves = {self.learner.env.name: (self.steps, self.returns)}
        if self.evaluations is not None:  # at some of the points
            known = np.isfinite(self.evaluations).any(axis=0)
            curves[GREEDY] = self.steps[known], self.evaluations[:, known]
        panel = plots.Panel(curves, "environment steps", "return of finished episodes")
        figure = plots.draw_panels([panel], height=3.6)
        return [plots.save_figure(figure, files.make_folder(folder) / CURVES)]


def with_policies(population: Population, rows: Row) -> Row:
    """Return agents with policies in the place of states, which may have large replay memories."""
    return rows.replace(agent=jax.vmap(population.task.learner.policy)(rows.agent))


def result_of(population: Population, rows: Row, path: Path | None = None) -> TrainingResult:
    """Return the result of agents `with_policies`, on the host, with all their updates done."""
    agents = Agents(rows, len(rows.finite), population.num_updates)
    return TrainingResult(
        population.task.learner,
        jax.tree.map(jnp.asarray, rows.agent),
        population.windows.ends() * population.frames_per_update,
        np.asarray(mean_returns(rows.episodes), np.float64),
        np.asarray(population.scores(agents)[0], np.float32),
        agents.diverged[0],
        population.evaluation_curves(rows),
        path,
    )


def load_training(run_dir: str | Path, *, code: Sequence[str] = ()) -> TrainingResult:
    """Return the result of a finished training run: policies, learning curves, scores.

    Examples:
        >>> result = metaevo.load_training("runs/train/my_run")
        >>> first = jax.tree.map(lambda leaf: leaf[0], result.policies)
        >>> memory = acting.begin(result.learner)  # None, unless the policy is recurrent
        >>> action, memory = acting.act(result.learner, first, memory, key, obs, greedy=True)

    Args:
        run_dir: the directory of `metaevo train` or `metaevo.train`.
        code: names of the code that the run's settings name, if it is not metaevo's:
            `my_loss.py`, `my_env.py:Corridor`.

    Raises:
        ConfigError: if the directory holds no finished training run, or a damaged one.
    """
    directory = RunDirectory.open(Path(run_dir))
    content = directory.read_config()
    admit(directory.path, content["config"], content["resolved"], {}, code)
    settings = from_dict(training_class(content["config"]), content["config"])
    population = settings.population(directory.path, metrics=True)
    if not (path := directory.path / POLICIES).exists():
        raise ConfigError(f"{run_dir} holds no finished training (no {POLICIES} in it)")
    template = jax.eval_shape(partial(with_policies, population), population.template)
    rows, _ = checkpoint.load_tree(path, template)
    return result_of(population, rows, directory.path)
