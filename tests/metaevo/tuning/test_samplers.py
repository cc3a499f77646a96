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

REAL = FloatDistribution(0, 1)
MIXED = Space(
    {
        "a": FloatDistribution(1e-4, 1e-2, log=True),
        "b": IntDistribution(10, 40, step=10),
        "c": Choice(([1], [2, 3])),
    }
)


def points_of(config, space=MIXED):
    """The settings of all trials, asked for in batches of five."""
    with Study(None, config, space, seed=0, name="tested") as study:
        while batch := study.ask(5):
            for trial in batch:
                study.tell(complete(trial, 0.0))
    return [tuple(map(str, trial.params.values())) for trial in study.trials()]


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


@pytest.mark.parametrize(
    ("sampler", "entries", "message"),
    [
        ("grid", {f"x{i}": REAL for i in range(20)}, "grid_points"),
        ("cma_es", {"c": Choice((1, 2))}, "at least 2 ranges"),
        ("cma_es", {"c": Choice((1, 2)), "x": REAL}, "at least 2 ranges"),
    ],
)
def test_spaces_that_a_sampler_cannot_search(make_config, sampler, entries, message):
    with pytest.raises(ConfigError, match=message):
        check_sampler(make_config(sampler=sampler), Space(entries))


@pytest.mark.parametrize("key", ["a", "b"])
def test_values_and_fractions_are_inverse(key):
    entry = MIXED.entries[key]
    for fraction in np.linspace(0.01, 0.99, 25):
        value = at(entry, fraction)
        assert at(entry, fraction_of(entry, value)) == pytest.approx(value, rel=1e-12)
    assert fraction_of(MIXED.entries["a"], at(MIXED.entries["a"], 0.3)) == pytest.approx(0.3)
