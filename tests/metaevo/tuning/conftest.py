import math
from dataclasses import replace

import pytest
from optuna.distributions import FloatDistribution

from metaevo.config.space import Space
from metaevo.tuning.config import SweepConfig


class KilledError(Exception):
    """Ends a process's work at any place."""


def complete(trial, value, **result):
    return replace(trial, outcome="complete", value=value, **result)


@pytest.fixture(scope="session")
def space():
    entries = {
        "hyperparams.learning_rate": FloatDistribution(1e-5, 1e-1, log=True),
        "hyperparams.gamma": FloatDistribution(0.9, 0.999),
    }
    return Space(entries)


@pytest.fixture(scope="session")
def make_config():
    return lambda **changes: SweepConfig(**{"trials": 8, "sampler": "random", **changes})


@pytest.fixture(scope="session")
def quadratic():
    """The objective, at most 0: each setting's distance from the optimum, as parts of its range."""

    def value(params):
        rate = math.log10(params["hyperparams.learning_rate"] / 3e-3) / 4
        gamma = (params["hyperparams.gamma"] - 0.97) / 0.099
        return -(rate**2) - gamma**2

    return value
