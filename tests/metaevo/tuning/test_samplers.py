import itertools

import numpy as np
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from scipy.stats import qmc

from metaevo.config import ConfigError
from metaevo.tuning.ranges import Choice, at, fraction_of
from metaevo.tuning.samplers import check_sampler, design, num_trials
from metaevo.tuning.space import Space

MIXED = Space(
    {
        "a": FloatDistribution(1e-4, 1e-2, log=True),
        "b": IntDistribution(10, 40, step=10),
        "c": Choice(([1], [2, 3])),
    },
    {},
)


def test_a_grid_has_the_order_of_itertools_product(make_config):
    config = make_config(sampler="grid", grid_points=4, trials=100)
    axes = [np.geomspace(1e-4, 1e-2, 4), [10, 20, 30, 40], [[1], [2, 3]]]
    expected = list(itertools.product(*axes))
    points = design(config, MIXED, seed=0)
    assert num_trials(config, MIXED) == len(points) == len(expected) == 32
    assert design(make_config(sampler="grid", grid_points=4, trials=9), MIXED, 0) == points[:9]
    for point, (a, b, c) in zip(points, expected, strict=True):
        assert point == {"a": pytest.approx(a), "b": b, "c": c}


@pytest.mark.parametrize("trials", [1, 64, 65, 200])
def test_sobol_points_match_scipy(make_config, trials):
    points = design(make_config(sampler="sobol", trials=trials), MIXED, seed=3)
    expected = qmc.Sobol(3, scramble=True, rng=3).random_base2(8)[:trials]
    assert points == [
        {
            "a": pytest.approx(1e-4 * 100**a),
            "b": 10 * (1 + int(4 * b)),
            "c": [[1], [2, 3]][int(2 * c)],
        }
        for a, b, c in expected
    ]


def test_random_points_are_functions_of_seed_and_index(make_config):
    many, few = make_config(sampler="random", trials=200), make_config(sampler="random", trials=9)
    points = design(many, MIXED, 1)
    assert design(few, MIXED, 1) == points[:9]
    assert all(other not in points for other in design(few, MIXED, 2))
    logarithms = [np.log10(point["a"]) for point in points]
    assert abs(np.mean(logarithms) + 3) < 0.1  # standard error 0.04
    assert {point["b"] for point in points} == {10, 20, 30, 40}


@pytest.mark.parametrize("key", ["a", "b"])
def test_values_and_fractions_are_inverse(key):
    entry = MIXED.entries[key]
    for fraction in np.linspace(0.01, 0.99, 25):
        value = at(entry, fraction)
        assert at(entry, fraction_of(entry, value)) == pytest.approx(value, rel=1e-12)
    assert fraction_of(MIXED.entries["a"], at(MIXED.entries["a"], 0.3)) == pytest.approx(0.3)


@pytest.mark.parametrize("numeric", [0, 1])
def test_cma_es_refuses_a_space_that_it_would_search_at_random(make_config, numeric):
    entries = {"c": Choice((1, 2)), **{f"x{i}": FloatDistribution(0, 1) for i in range(numeric)}}
    with pytest.raises(ConfigError, match="at least 2 ranges"):
        check_sampler(make_config(sampler="cma_es"), Space(entries, {}))
