"""Sweeps over evolutions: what their trials are made of."""

from metaevo.config import from_dict
from metaevo.sweep import evolutions
from metaevo.sweep.plan import make_plan
from metaevo.sweep.run import make_trials
from metaevo.sweep.settings import sweep_class

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


def test_a_study_is_built_once_for_every_static_group(monkeypatch):
    built, real = [], evolutions.LearnerStudy
    monkeypatch.setattr(
        evolutions, "LearnerStudy", lambda settings: (built.append(settings), real(settings))[1]
    )
    plan = make_plan(make_trials(from_dict(sweep_class(RAW), RAW)))
    assert plan.groups == 2
    # The third one is that of the settings before the sweep.
    assert sorted(each.strategy.population_size for each in built) == [4, 8, 64]
