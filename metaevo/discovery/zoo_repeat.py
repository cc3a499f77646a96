"""Repeat the score on a card: train agents with the rule, or play episodes of a meta-policy."""

from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.components import players, zoo
from metaevo.config import from_dict
from metaevo.config.plain import PlainDict
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.studies.games.settings import ShapingSettings
from metaevo.studies.games.shaping import Shaping
from metaevo.training.population import Population
from metaevo.training.settings import make_task, training_class


def scores_of(learner: str, experiment: PlainDict, slot: str, rule: str, seeds: int) -> np.ndarray:
    """Train agents with a rule in its slot, with keys that no evolution uses.

    `experiment` has sections of a run's settings, and functions by the learner's other slots.

    Returns:
        [seeds] scores; a diverged agent has the worst score.
    """
    sections = {key: value for key, value in experiment.items() if key != "functions"}
    raw = {"learner": learner, **sections, **experiment["functions"], slot: rule}
    settings: Any = from_dict(training_class(raw), raw)
    task, meta_params = make_task(settings, distributions=True)
    population = Population(
        task,
        settings.hyperparams,
        meta_params,
        settings.fitness,
        agents=seeds,
    )
    trained = population.train(keys_for(0, Purpose.TRAINING, seeds))
    return statistics.fill_missing({"": np.asarray(trained.scores)[0]})[""]


def payoffs_of(experiment: PlainDict, shaper: str, seeds: int) -> np.ndarray:
    """Play meta-episodes, with keys as in `scores_of`; return the mean reward per step [seeds].

    `experiment` has the sections game and opponent of a run's settings.
    """
    settings = from_dict(ShapingSettings, experiment)
    names = settings.opponent.all
    met = players.find(names, players.SETTING, settings.game.game)
    problem, weights = Shaping(settings, met), players.load(shaper)
    keys = keys_for(0, Purpose.TRAINING, seeds)
    return np.asarray(jax.jit(jax.vmap(problem.evaluate, (0, None)))(keys, weights).fitness)


class Repeated(NamedTuple):
    """Scores whose mean should match the card's, up to chance."""

    scores: np.ndarray
    """[seeds]"""
    known: PlainDict
    """of the card"""

    @property
    def distance(self) -> float:
        """Distance of the means, in standard errors."""
        error = self.known["std"] * np.sqrt(1 / len(self.scores) + 1 / self.known["seeds"])
        return float(abs(self.scores.mean() - self.known["mean"]) / error)


def repeat(entry: zoo.Entry, seeds: int) -> dict[str, Repeated]:
    """Repeat every score of a card with a number of seeds; return them by what they measure."""
    return {measure: repeat_one(entry, known, seeds) for measure, known in entry.repeats.items()}


def repeat_one(entry: zoo.Entry, known: PlainDict, seeds: int) -> Repeated:
    """Repeat one score of a card, an item of `entry.repeats`."""
    card, experiment = entry.card, known["experiment"]
    if card["slot"] == players.SETTING:
        scores = payoffs_of(experiment, entry.name, seeds)
    else:
        scores = scores_of(card["learner"], experiment, card["slot"], entry.name, seeds)
    return Repeated(scores, known)
