import itertools
import math

import numpy as np
import optuna
import pytest
import yaml

from metaevo.config import ConfigError, from_dict, merge
from metaevo.studies.settings import experiment_class
from metaevo.training.settings import training_class
from metaevo.tuning.ranges import at
from metaevo.tuning.space import Space, make_space

RAW = {"learner": "ppo"}
RATE = "hyperparams.learning_rate"


def make(raw, settings=RAW):
    return make_space(raw, training_class(settings), settings)


def test_every_kind():
    space = make(
        {
            RATE: {"log_uniform": ["1e-4", 1e-2]},
            "hyperparams.gamma": {"uniform": [0.9, 0.999]},
            "train.num_minibatches": {"choice": [2, 4]},
            "train.num_steps": {"integer": [32, 128], "step": 32},
            "train.num_envs": {"log_integer": [4, 64]},
            "train.hidden_sizes": {"choice": [[64, 64], [32]]},
            "hyperparams.vf_coef": {"fixed": 0.5},
        }
    )
    distributions = optuna.distributions
    assert space.distributions == {
        RATE: distributions.FloatDistribution(1e-4, 1e-2, log=True),
        "hyperparams.gamma": distributions.FloatDistribution(0.9, 0.999),
        "train.num_minibatches": distributions.CategoricalDistribution([2, 4]),
        "train.num_steps": distributions.IntDistribution(32, 128, step=32),
        "train.num_envs": distributions.IntDistribution(4, 64, log=True),
        "train.hidden_sizes": distributions.CategoricalDistribution(["[64, 64]", "[32]"]),
    }
    assert space.fixed == {"hyperparams.vf_coef": 0.5}
    assert space.is_traced(RATE)
    assert space.static == tuple(space.distributions)[2:]
    assert space.num_static() == 2 * 4 * 61 * 2


def test_values_become_settings_and_come_back_from_optuna():
    sizes = "train.hidden_sizes"
    space = make({sizes: {"choice": [[64, 64], [32]]}, "hyperparams.vf_coef": {"fixed": 0.25}})
    params = {sizes: [32]}
    assert space.encode(params) == {sizes: "[32]"}
    assert space.decode(space.encode(params)) == params
    overrides = space.settings(params)
    assert overrides == {"train": {"hidden_sizes": [32]}, "hyperparams": {"vf_coef": 0.25}}
    settings = from_dict(training_class(RAW), merge(RAW, overrides))
    assert settings.train.hidden_sizes == (32,)
    assert settings.hyperparams.vf_coef == 0.25


def test_static_ranges_of_real_numbers_have_no_bound():
    space = make({"task.env_params.length": {"uniform": [0.5, 1]}, RATE: {"uniform": [0, 1]}})
    assert space.num_static() is None
    assert space.static_grid(10) == [{"task.env_params.length": x} for x in (0.5, 0.75, 1)]
    assert make({RATE: {"uniform": [0, 1]}}).num_static() == 1
    assert make({RATE: {"uniform": [0, 1]}}).static_grid(10) == [{}]


def test_a_grid_is_the_product_of_its_axes():
    space = make(
        {
            RATE: {"log_uniform": [1e-4, 1e-2]},
            "hyperparams.gamma": {"uniform": [0.9, 0.98]},
            "train.num_steps": {"integer": [32, 96], "step": 32},
            "train.num_minibatches": {"log_integer": [1, 4]},
            "value_loss": {"choice": ["squared", "huber"]},
        }
    )
    axes = [
        [1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2],
        [0.9, 0.92, 0.94, 0.96, 0.98],
        [32, 64, 96],  # five points, rounded to three
        [1, 2, 3, 4],  # 1, 1.41, 2, 2.83, 4
        ["squared", "huber"],
    ]
    expected = list(itertools.product(*axes))
    grid = space.grid(5)
    assert len(grid) == len(expected) == 600
    for point, values in zip(grid, expected, strict=True):
        assert list(point) == list(space.distributions)
        numbers = list(point.values())
        np.testing.assert_allclose(numbers[:4], values[:4], rtol=1e-12)
        assert numbers[4] == values[4]
    assert all(type(point["train.num_steps"]) is int for point in grid)


def test_each_integer_of_a_range_gets_the_same_share():
    entry = make({"train.num_steps": {"integer": [32, 128], "step": 32}}).entries["train.num_steps"]
    values = [at(entry, (i + 0.5) / 400) for i in range(400)]
    assert {value: values.count(value) for value in set(values)} == dict.fromkeys(
        (32, 64, 96, 128), 100
    )
    rate = make({RATE: {"log_uniform": [1e-4, 1e-2]}}).entries[RATE]
    assert math.isclose(at(rate, 0.5), 1e-3)


def test_the_wandb_sweep():
    space = make(
        {
            RATE: {"log_uniform": [1e-4, 1e-2]},
            "hyperparams.gamma": {"uniform": [0.9, 0.999]},
            "train.num_steps": {"integer": [32, 128], "step": 32},
            "train.update_epochs": {"integer": [1, 4]},
            "train.num_envs": {"log_integer": [4, 64]},
            "train.total_timesteps": {"integer": [100_001, 300_001], "step": 100_000},
            "value_loss": {"choice": ["squared", "huber"]},
            "hyperparams.vf_coef": {"fixed": 0.5},
        }
    )
    assert space.to_wandb() == {
        RATE: {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2},
        "hyperparams.gamma": {"distribution": "uniform", "min": 0.9, "max": 0.999},
        "train.num_steps": {"distribution": "q_uniform", "min": 32, "max": 128, "q": 32},
        "train.update_epochs": {"distribution": "int_uniform", "min": 1, "max": 4},
        "train.num_envs": {"distribution": "q_log_uniform_values", "min": 4, "max": 64, "q": 1},
        "train.total_timesteps": {"values": [100_001, 200_001, 300_001]},
        "value_loss": {"values": ["squared", "huber"]},
        "hyperparams.vf_coef": {"value": 0.5},
    }


def test_a_setting_without_a_default_and_one_that_only_fits_beside_another():
    make({"hyperparams.annealing_steps": {"log_uniform": [1e4, 1e6]}})
    settings = {"learner": "ppo", "train": {"num_envs": 4, "num_steps": 4, "num_minibatches": 4}}
    with pytest.raises(ConfigError, match=r"space\.train\.num_minibatches = 64"):
        make({"train.num_minibatches": {"choice": [4, 64]}}, settings)
    make({"train.num_minibatches": {"choice": [4, 64]}, "train.num_steps": {"choice": [4, 64]}},
         settings)  # fmt: skip


def test_the_settings_of_an_evolution():
    settings = {"learner": "ppo", "evolve": "value_loss"}
    cls = experiment_class(settings, None)
    space = make_space({"strategy.sigma": {"log_uniform": [0.01, 0.1]}}, cls, settings)
    assert space.static == ("strategy.sigma",)


WRONG = [
    "{}",
    "hyperparams.gamma: {fixed: 0.9}",
    "hyperparams.learning_rat: {uniform: [0, 1]}",
    "learning_rate: {uniform: [0, 1]}",
    "hyperparams: {uniform: [0, 1]}",
    "run.seed: {integer: [0, 9]}",
    "seeds: {integer: [1, 9]}",
    "learner: {choice: [ppo, dqn]}",
    "task.env: {choice: [[CartPole-v1, Acrobot-v1]]}",
    "task.env_params: {choice: [1]}",
    "task.env_params.a.b: {choice: [1]}",
    "hyperparams.gamma: 0.9",
    "hyperparams.gamma: {unifrom: [0, 1]}",
    "hyperparams.gamma: {}",
    "hyperparams.gamma: {fixed: 1, choice: [1]}",
    "hyperparams.gamma: {uniform: 0.9}",
    "hyperparams.gamma: {uniform: [0.9]}",
    "hyperparams.gamma: {uniform: [0.9, 0.9]}",
    "hyperparams.gamma: {uniform: [0.99, 0.9]}",
    "hyperparams.gamma: {uniform: [a, b]}",
    "hyperparams.gamma: {uniform: [false, true]}",
    "hyperparams.learning_rate: {uniform: [0, .inf]}",
    "hyperparams.learning_rate: {uniform: [.nan, 1]}",
    "hyperparams.learning_rate: {log_uniform: [0, 1]}",
    "train.num_envs: {log_integer: [0, 8]}",
    "hyperparams.gamma: {uniform: [0.9, 1.5]}",
    "hyperparams.gamma: {uniform: [-1, 1]}",
    "value_loss: {choice: [squared, 3]}",
    "hyperparams.gamma: {choice: [0.9, 3]}",
    "hyperparams.gamma: {choice: []}",
    "hyperparams.gamma: {choice: 0.9}",
    "hyperparams.gamma: {choice: [0.9, 0.99, 0.9]}",
    "train.num_steps: {integer: [1.5, 3]}",
    "train.num_steps: {uniform: [16, 32]}",
    "train.num_steps: {integer: [32, 128], step: 0}",
    "train.num_steps: {integer: [32, 128], step: 1.5}",
    "train.num_steps: {integer: [32, 128], step: 64}",
    "train.num_steps: {log_integer: [32, 128], step: 2}",
    "value_loss: {uniform: [0, 1]}",
    "train.anneal: {integer: [0, 1]}",
    "{hyperparams.gamma: {fixed: 2}, hyperparams.clip_epsilon: {uniform: [0.1, 0.3]}}",
]


@pytest.mark.parametrize("space", WRONG)
def test_what_cannot_be_searched_is_one_clear_line(space):
    raw = yaml.safe_load(space)
    with pytest.raises(ConfigError) as error:
        make(raw)
    assert str(error.value).startswith(("space", "unknown setting 'space."))
    assert any(key in str(error.value) for key in raw) or "nothing to try" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["hyperparams.learning_rat", "learning_rate"])
def test_a_misspelt_setting_gets_a_suggestion(name):
    with pytest.raises(ConfigError, match=r"did you mean 'hyperparams\.learning_rate'"):
        make({name: {"uniform": [0, 1]}})


def test_an_empty_space_changes_nothing():
    space = Space({}, {})
    assert (space.settings({}), space.grid(3), space.num_static()) == ({}, [{}], 1)
