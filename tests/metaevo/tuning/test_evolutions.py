"""Sweeps over evolutions: what their trials are made of."""

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
    objective = make_objective(from_dict(sweep_class(RAW), RAW))
    same = [{"strategy.sigma": 0.5}, {"strategy.learning_rate": 0.5}]
    other = [{"strategy.sigma_decay": 0.5}, {"strategy.learning_rate_decay": 0.5}]
    keys = [objective.static_key(objective.settings_of(each)) for each in ({}, *same, *other)]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 3
