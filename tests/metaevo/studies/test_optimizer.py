from pathlib import Path

import jax
import pytest

from metaevo.config import ConfigError
from tests.metaevo import evolving

pytestmark = pytest.mark.long

EXAMPLE = str(Path(__file__).parents[3] / "examples/scheduled_adam.py")


def study_of(evolve, evaluation, **others):
    return evolving.study_of({"evolve": evolve, "evaluation": evaluation, **others})


def ranges(study):
    point = study.problem.init(jax.random.key(0))
    _, *rivals = study.judgements({"learned": point})["scores"].contenders
    return {each.name: each.ranges for each in rivals}


RATES = {"learning_rate": {"log_uniform": [1e-4, 1.0]}}


@pytest.mark.parametrize(
    ("evaluation", "names", "momentum"),
    [
        ({"contenders": ["adam"]}, {"adam"}, None),
        ({"contenders": ["rmsprop", "momentum"]}, {"rmsprop", "momentum"}, RATES),
        ({"own": {"momentum": {"learning_rate": [0.1]}}}, None, {"learning_rate": [0.1]}),
        ({}, None, RATES),
    ],
)
def test_contenders_and_their_ranges_can_be_named(evaluation, names, momentum):
    found = ranges(study_of(EXAMPLE, evaluation))
    assert names is None or set(found) == names
    assert found.get("momentum") == momentum
    assert found.get("adam", {}) == {}


def test_a_loss_that_has_a_slope_is_tuned_over_it():
    options = {"learner": "q_learning", "task": {"env": "GridWorld"}}
    found = ranges(study_of("value_loss", {}, **options))
    assert (set(found["squared"]), set(found["sloped_squared"])) == (set(), {"loss_slope"})


@pytest.mark.parametrize(
    ("evaluation", "text"),
    [
        ({"contenders": ["adamm"]}, r"evaluation\.contenders: .*adamm"),
        ({"own": {"sgdd": {}}}, r"evaluation\.own: .*sgdd"),
        ({"own": {"momentum": {"rate": [1]}}}, r"evaluation\.space\.rate: no tunable"),
        ({"space": {"rate": [1]}}, r"evaluation\.space\.rate: no tunable"),
        ({"space": {"learning_rate": {"uniform": [1, 0]}}}, r"evaluation\.space\.learning_rate"),
    ],
)
def test_invalid_tuning_spaces_are_refused(evaluation, text):
    space = {"learning_rate": [1e-3, 1e-2]}
    with pytest.raises(ConfigError, match=text):
        study_of(EXAMPLE, {"space": space, **evaluation}).check()
