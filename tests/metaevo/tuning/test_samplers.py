import itertools

import numpy as np
import optuna
import pytest
from scipy.stats import qmc

from metaevo.config import ConfigError
from metaevo.tuning.ranges import Choice, Range
from metaevo.tuning.sampling import (
    DesignSampler,
    design_indices,
    grid_size,
    make_sampler,
    num_trials,
)
from metaevo.tuning.space import Space

MIXED = Space(
    {
        "a": Range("log_uniform", 1e-4, 1e-2),
        "b": Range("integer", 10, 40, step=10),
        "c": Choice(([1], [2, 3])),
    },
    {},
)


def test_a_grid_is_walked_in_the_order_of_itertools_product(make_config):
    config = make_config(sampler="grid", grid_points=4, trials=100)
    sampler = DesignSampler(config, MIXED, seed=0)
    axes = [np.geomspace(1e-4, 1e-2, 4), [10, 20, 30, 40], [[1], [2, 3]]]
    expected = list(itertools.product(*axes))
    assert grid_size(config, MIXED) == num_trials(config, MIXED) == len(expected) == 32
    assert num_trials(make_config(sampler="grid", grid_points=4, trials=9), MIXED) == 9
    for index, (a, b, c) in enumerate(expected):
        point = sampler.point(index)
        assert point == {"a": pytest.approx(a), "b": b, "c": c}


def test_sobol_points_are_those_of_scipy(make_config):
    sampler = DesignSampler(make_config(sampler="sobol"), MIXED, seed=3)
    expected = qmc.Sobol(3, scramble=True, rng=3).random_base2(8)
    order = [200, 0, 255, 64, 63, 1]  # whatever was asked for before
    for index in order:
        a, b, c = expected[index]
        assert sampler.point(index) == {
            "a": pytest.approx(1e-4 * 100**a),
            "b": 10 * (1 + int(4 * b)),
            "c": [[1], [2, 3]][int(2 * c)],
        }


def test_random_points_are_functions_of_seed_and_index(make_config):
    config = make_config(sampler="random")
    first, again, other = (DesignSampler(config, MIXED, seed) for seed in (1, 1, 2))
    points = [first.point(index) for index in range(200)]
    assert [again.point(index) for index in reversed(range(200))] == points[::-1]
    assert all(other.point(index) != points[index] for index in range(200))
    logarithms = [np.log10(point["a"]) for point in points]
    assert abs(np.mean(logarithms) + 3) < 0.1  # standard error 0.04
    assert {point["b"] for point in points} == {10, 20, 30, 40}


def test_places_in_the_design_count_no_retries():
    study = optuna.create_study()
    for attributes in [{}, {}, {"retry_of": 1}, {}, {"retry_of": 2}, {"retry_of": 0}, {}]:
        study.enqueue_trial({}, user_attrs=attributes)
    assert design_indices(study.trials) == [0, 1, 1, 2, 1, 0, 3]


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_fraction_of_a_range_is_that_of_its_value(key):
    entry = MIXED.entries[key]
    for fraction in np.linspace(0.01, 0.99, 25):
        value = entry.at(fraction)
        assert entry.at(entry.fraction(value)) == pytest.approx(value, rel=1e-12)
    assert MIXED.entries["a"].fraction(MIXED.entries["a"].at(0.3)) == pytest.approx(0.3)


@pytest.mark.parametrize("numeric", [0, 1])
def test_cma_es_refuses_a_space_that_it_would_search_at_random(make_config, numeric):
    entries = {"c": Choice((1, 2)), **{f"x{i}": Range("uniform", 0, 1) for i in range(numeric)}}
    with pytest.raises(ConfigError, match="at least 2 ranges"):
        make_sampler(make_config(sampler="cma_es"), Space(entries, {}), 0)
