import math

import optuna
import pytest
import yaml

from metaevo.config import ConfigError, from_dict, merge
from metaevo.training.settings import training_class
from metaevo.tuning.ranges import at
from metaevo.tuning.space import make_space, nested

RAW = {"learner": "ppo"}
RATE = "hyperparams.learning_rate"


def make(raw, settings=RAW):
    return make_space(raw, training_class(settings), settings)


def test_every_kind_of_parameter():
    space = make(
        {
            RATE: {"log_uniform": [1e-4, 1e-2]},
            "hyperparams.gamma": {"uniform": [0.9, 0.999]},
            "train.num_minibatches": {"choice": [2, 4]},
            "train.num_steps": {"integer": [32, 128], "step": 32},
            "train.num_envs": {"log_integer": [4, 64]},
            "train.hidden_sizes": {"choice": [[64, 64], [32]]},
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
    assert space.is_traced(RATE)
    assert space.static == tuple(space.distributions)[2:]
    assert space.num_static() == 2 * 4 * 61 * 2
    assert make({"task.env_params.length": {"uniform": [0.5, 1]}}).num_static() == math.inf
    assert make({RATE: {"uniform": [0, 1]}}).num_static() == 1


def test_values_become_settings_and_come_back_from_optuna():
    sizes = "train.hidden_sizes"
    space = make({sizes: {"choice": [[64, 64], [32]]}})
    params = {sizes: [32]}
    assert space.distributions[sizes].choices == ("[64, 64]", "[32]")
    assert space.decode({sizes: "[32]"}) == params
    assert nested(params) == {"train": {"hidden_sizes": [32]}}
    settings = from_dict(training_class(RAW), merge(RAW, nested(params)))
    assert settings.train.hidden_sizes == (32,)


def test_each_integer_of_a_range_gets_the_same_share():
    entry = make({"train.num_steps": {"integer": [32, 128], "step": 32}}).entries["train.num_steps"]
    values = [at(entry, (i + 0.5) / 400) for i in range(400)]
    assert {value: values.count(value) for value in set(values)} == dict.fromkeys(
        (32, 64, 96, 128), 100
    )
    rate = make({RATE: {"log_uniform": [1e-4, 1e-2]}}).entries[RATE]
    assert math.isclose(at(rate, 0.5), 1e-3)


def test_settings_that_depend_on_each_other():
    make({"hyperparams.annealing_steps": {"log_uniform": [1e4, 1e6]}})
    settings = {"learner": "ppo", "train": {"num_envs": 4, "num_steps": 4, "num_minibatches": 4}}
    with pytest.raises(ConfigError, match=r"space\.train\.num_minibatches = 64"):
        make({"train.num_minibatches": {"choice": [4, 64]}}, settings)
    make({"train.num_minibatches": {"choice": [4, 64]}, "train.num_steps": {"choice": [4, 64]}},
         settings)  # fmt: skip


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
    "hyperparams.gamma: {choice: [0.9, 0.99, 0.9]}",
    "train.num_steps: {integer: [1.5, 3]}",
    "train.num_steps: {uniform: [16, 32]}",
    "train.num_steps: {integer: [32, 128], step: 0}",
    "train.num_steps: {integer: [32, 128], step: 64}",
    "train.num_steps: {log_integer: [32, 128], step: 2}",
    "value_loss: {uniform: [0, 1]}",
    "train.anneal: {integer: [0, 1]}",
    "hyperparams.gamma: {fixed: 0.9}",
]


@pytest.mark.parametrize("space", WRONG)
def test_invalid_spaces_are_refused_in_one_line(space):
    raw = yaml.safe_load(space)
    with pytest.raises(ConfigError) as error:
        make(raw)
    assert str(error.value).startswith("space")
    assert any(key in str(error.value) for key in raw) or "nothing to try" in str(error.value)
    assert "\n" not in str(error.value)
