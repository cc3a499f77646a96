"""Sweeps over evolutions: what their trials are made of."""

import pytest

from metaevo.config import from_dict
from metaevo.studies.sweeps import make_objective, sweep_class

RAW = {
    "learner": "q_learning",
    "evolve": "value_loss",
    "task": {"env": "GridWorld"},
    "evolution": {"generations": 2, "validation_seeds": 4},
    "space": {
        "strategy.sigma": {"log_uniform": [0.01, 0.1]},
        "strategy.population_size": {"choice": [4, 8]},
    },
}


def test_only_sigma_and_the_learning_rate_share_a_program():
    trials = make_objective(from_dict(sweep_class(RAW), RAW))
    same = [{"strategy.sigma": 0.5}, {"strategy.learning_rate": 0.5}]
    other = [{"strategy.sigma_decay": 0.5}, {"strategy.learning_rate_decay": 0.5}]
    keys = [trials.static_key(trials.settings_of(params)) for params in ({}, *same, *other)]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("name", "tried", "sizes"),
    [
        (
            "experiments.shaping.matrix_games:MatrixGame",
            "opponent.learning_rate",
            {"game": {"steps": 5}},
        ),
    ],
)
def test_other_problems_can_be_swept_over(name, tried, sizes):
    raw = {
        "problem": name,
        "strategy": {"population_size": 4},
        "evolution": {"generations": 2, "validation_seeds": 4},
        "run": {"seed": 3},
        "space": {tried: {"choice": [0.5, 2.0]}},
        **sizes,
    }
    trials = make_objective(from_dict(sweep_class(raw), raw))
    plan = trials.plan()
    assert plan.groups == 2
    settings = trials.settings_of({tried: 2.0})
    section, _, setting = tried.partition(".")
    evolution = settings.of_evolution()
    assert evolution.problem == name
    assert evolution.evaluation.seeds == 0
    assert evolution.run.seed == 3
    assert getattr(getattr(evolution, section), setting) == 2.0
    assert evolution.evolution.generations == 2
