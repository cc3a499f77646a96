import pytest
import yaml
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from metaevo.config import ConfigError
from metaevo.config.space import decoded
from tests.metaevo.evolving import objective_of, settings_of
from tests.processes import ROOT

RATE, SIZES = "hyperparams.learning_rate", "train.hidden_sizes"


def make(rules):
    return objective_of({"learner": "ppo", "space": rules})


def test_every_kind_of_parameter():
    objective = make(
        {
            RATE: {"log_uniform": [1e-4, 1e-2]},
            "hyperparams.gamma": {"uniform": [0.9, 0.999]},
            "train.num_minibatches": {"choice": [2, 4]},
            "train.num_steps": {"integer": [32, 128], "step": 32},
            "train.num_envs": {"log_integer": [4, 64]},
            SIZES: [[64, 64], [32]],
        }
    )
    space = objective.space
    assert space == {
        RATE: FloatDistribution(1e-4, 1e-2, log=True),
        "hyperparams.gamma": FloatDistribution(0.9, 0.999),
        "train.num_minibatches": CategoricalDistribution([2, 4]),
        "train.num_steps": IntDistribution(32, 128, step=32),
        "train.num_envs": IntDistribution(4, 64, log=True),
        SIZES: CategoricalDistribution(["[64, 64]", "[32]"]),
    }
    # Values become settings, and come back from Optuna, which takes scalars only.
    params = decoded(space, {SIZES: "[32]", RATE: 1e-3})
    assert list(params.items()) == [(RATE, 1e-3), (SIZES, [32])]
    settings = objective.settings_of(params)
    assert settings.train.hidden_sizes == (32,)
    assert settings.hyperparams.learning_rate == 1e-3
    same, other = {RATE: 1e-2, SIZES: [32]}, {"train.num_envs": 8, SIZES: [32]}
    keys = [objective.static_key(objective.settings_of(each)) for each in (params, same, other)]
    assert keys[0] == keys[1] != keys[2]


def test_sections_may_be_nested():
    rules = {"hyperparams": {"gamma": {"uniform": [0, 1]}}, RATE: [0.1]}
    assert list(make(rules).space) == ["hyperparams.gamma", RATE]


WRONG = [
    "{}",
    "hyperparams.learning_rat: {uniform: [0, 1]}",
    "learning_rate: {uniform: [0, 1]}",
    "hyperparams: {uniform: [0, 1]}",
    "run.seed: {integer: [0, 9]}",
    "learner: {choice: [ppo, dqn]}",
    "hyperparams.gamma: 0.9",
    "hyperparams.gamma: {unifrom: [0, 1]}",
    "hyperparams.gamma: {}",
    "hyperparams.gamma: {uniform: [0.9, 1], choice: [1]}",
    "hyperparams.gamma: {uniform: [0.9]}",
    "hyperparams.gamma: {uniform: [0.9, 0.9]}",
    "hyperparams.gamma: {uniform: [false, true]}",
    "hyperparams.learning_rate: {uniform: [0, .inf]}",
    "hyperparams.learning_rate: {log_uniform: [0, 1]}",
    "hyperparams.gamma: {uniform: [0.9, 1.5]}",
    "value_loss: {choice: [squared, 3]}",
    "hyperparams.gamma: {choice: []}",
    "train.num_steps: {integer: [1.5, 3]}",
    "train.num_steps: {uniform: [16, 32]}",
    "train.num_steps: {integer: [32, 128], step: 0}",
    "train.num_steps: {integer: [32, 128], step: 64}",
    "train.num_steps: {log_integer: [32, 128], step: 2}",
    "train.num_minibatches: {choice: [4, 7]}",
    "train.anneal: {integer: [0, 1]}",
]


@pytest.mark.parametrize("space", WRONG)
def test_invalid_spaces_are_refused_in_one_line(space):
    raw = yaml.safe_load(space)
    with pytest.raises(ConfigError) as error:
        make(raw)
    assert str(error.value).startswith("space")
    assert any(key in str(error.value) for key in raw) or "nothing to try" in str(error.value)
    assert "\n" not in str(error.value)


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
