import itertools

import numpy as np
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from metaevo.config import ConfigError
from metaevo.tuning.ranges import Choice, at, fraction_of
from metaevo.tuning.samplers import check_sampler, num_trials
from metaevo.tuning.space import Space
from metaevo.tuning.study import Study
from tests.metaevo.tuning.conftest import complete

MIXED = Space(
    {
        "a": FloatDistribution(1e-4, 1e-2, log=True),
        "b": IntDistribution(10, 40, step=10),
        "c": Choice(([1], [2, 3])),
    },
    {},
)


def points_of(config, space=MIXED, seed=0):
    """The settings of all trials, asked for in batches of five."""
    found = []
    with Study(None, config, space, seed=seed, name="tested") as study:
        while batch := study.ask(5):
            for trial in batch:
                study.tell(complete(trial, 0.0))
                found.append(tuple(map(str, trial.params.values())))
    return found


def test_every_point_of_a_grid_is_tried_once(make_config):
    config = make_config(sampler="grid", grid_points=4, trials=100)
    axes = [np.geomspace(1e-4, 1e-2, 4), [10, 20, 30, 40], [[1], [2, 3]]]
    points = points_of(config)
    assert num_trials(config, MIXED) == len(points) == 32
    found = [(f"{float(a):.9g}", b, c) for a, b, c in points]
    assert sorted(found) == sorted(
        (f"{a:.9g}", str(b), str(c)) for a, b, c in itertools.product(*axes)
    )
    some = points_of(make_config(sampler="grid", grid_points=4, trials=9))
    assert len(set(some)) == 9
    assert set(some) <= set(points)


def test_sobol_points_fill_a_range_evenly(make_config):
    space = Space({"a": FloatDistribution(0, 1)}, {})
    points = points_of(make_config(sampler="sobol", trials=65), space)
    sixty_fourths = {int(64 * float(a)) for (a,) in points[1:]}  # the first one is random
    assert sixty_fourths == set(range(64))


def test_random_points_cover_the_space(make_config):
    points = points_of(make_config(sampler="random", trials=200))
    assert len(set(points)) == 200
    logarithms = [np.log10(float(a)) for a, _, _ in points]
    assert abs(np.mean(logarithms) + 3) < 0.2  # standard error 0.04
    assert {int(b) for _, b, _ in points} == {10, 20, 30, 40}


def test_a_grid_that_is_too_large_is_refused(make_config):
    space = Space({f"x{i}": FloatDistribution(0, 1) for i in range(20)}, {})
    with pytest.raises(ConfigError, match="grid_points"):
        check_sampler(make_config(sampler="grid"), space)


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
