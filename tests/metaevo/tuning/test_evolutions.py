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
    objective = make_objective(from_dict(sweep_class(RAW), RAW))
    same = [{"strategy.sigma": 0.5}, {"strategy.learning_rate": 0.5}]
    other = [{"strategy.sigma_decay": 0.5}, {"strategy.learning_rate_decay": 0.5}]
    keys = [objective.static_key(objective.settings_of(each)) for each in ({}, *same, *other)]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("name", "tried", "sizes"),
    [
        ("shaping", "opponent.learning_rate", {"game": {"steps": 5}}),
        (
            "cheap_talk",
            "channel.scale",
            {"train": {"total_timesteps": 64, "num_envs": 2, "num_steps": 16}},
        ),
    ],
)
def test_other_studies_can_be_swept_over(name, tried, sizes):
    raw = {
        "study": name,
        "strategy": {"population_size": 4},
        "evolution": {"generations": 2, "validation_seeds": 4},
        "run": {"seed": 3},
        "space": {tried: {"choice": [0.5, 2.0]}},
        **sizes,
    }
    objective = make_objective(from_dict(sweep_class(raw), raw))
    assert objective.start().frames > 0
    evolution = objective.settings_of({tried: 2.0}).of_evolution()
    section, _, setting = tried.partition(".")
    assert getattr(getattr(evolution, section), setting) == 2.0
    assert (evolution.study, evolution.evaluation.seeds, evolution.run.seed) == (name, 0, 3)
    assert evolution.evolution.generations == 2
