import pytest

from metaevo.config import ConfigError
from tests.metaevo.evolving import objective_of, settings_of
from tests.processes import ROOT

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
    objective = objective_of(RAW)
    same = [{"strategy.sigma": 0.5}, {"strategy.learning_rate": 0.5}]
    other = [{"strategy.sigma_decay": 0.5}, {"strategy.learning_rate_decay": 0.5}]
    keys = [objective.static_key(objective.settings_of(each)) for each in ({}, *same, *other)]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 3


def test_the_best_settings_of_a_problem_name_it_and_evolve():
    """As best.yaml has them, in which defaults are left out."""
    name = f"{ROOT / 'examples' / 'throw.py'}:Throw"
    raw = {
        "problem": name,
        "evolution": {"generations": 1, "validation_seeds": 2},
        "space": {"wind": {"choice": [1.0, 3.0]}},
    }
    objective = objective_of(raw)
    best = objective.config_of({"wind": 3.0})
    assert (best["problem"], best["wind"]) == (name, 3.0)
    settings_of(best)


def test_a_problem_of_several_tasks_is_refused():
    raw = {
        "problem": "experiments.shaping.matrix_games:MatrixGame",
        "opponent": {"names": ["naive", "lola"]},
        "space": {"strategy.sigma": {"choice": [0.1, 0.3]}},
    }
    objective = objective_of(raw)
    with pytest.raises(ConfigError, match="naive, lola"):
        objective.start()
