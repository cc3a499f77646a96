from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.config import ConfigError
from tests.metaevo.toy import Quadratic, begun, distance, evolution, run

FILE = Path(__file__).parents[3] / "examples" / "random_search.py"
NAME = f"{FILE}:RandomSearch"


def test_one_from_a_file_improves():
    config = {"validation_seeds": 2, "validation_every": 2, "generations": 30, "num_devices": 1}
    this = evolution(Quadratic(noise=0.1), config, algorithm=NAME, settings={"shrink": 0.95})
    state, metrics = run(this, 30)
    assert distance(this.result(state)) < 0.5 < distance(this.result(begun(this)))
    assert np.isnan(metrics["fitness_of_mean"][0])  # without a mean, nothing to validate yet


class Fixed(metaevo.Strategy):
    """Proposes the same numbers in every generation."""

    population_size: int = 4
    shift: float = 1.0
    has_mean = True

    def init(self, key, init_solution):
        return init_solution(key)

    def ask(self, key, state):
        steps = self.shift * jnp.arange(self.population_size)
        return {k: v + steps.reshape(-1, *[1] * v.ndim) for k, v in state.items()}, state

    def tell(self, key, population, evaluation, state):
        return state

    def best(self, state):
        return state


@pytest.mark.long
def test_an_object_evolves_and_resumes_with_the_same_settings_only(tmp_path):
    run_dir = tmp_path / "run"
    metaevo.evolve(Quadratic(), strategy=Fixed(), generations=3, run_dir=run_dir)
    with pytest.raises(ConfigError, match=r"strategy\.settings\.shift"):
        metaevo.evolve(
            Quadratic(), strategy=Fixed(shift=2.0), generations=4, run_dir=run_dir, resume=True
        )
    again = metaevo.evolve(
        Quadratic(), strategy=Fixed(), generations=4, run_dir=run_dir, resume=True
    )
    assert len(again.metrics) == 4


class Unfinished(metaevo.Strategy):
    population_size: int = 4


class Drifting(Fixed):
    def tell(self, key, population, evaluation, state):
        return population


class Deaf(Fixed):
    def tell(self, key, population, evaluation, state):
        raise KeyError("x")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ({"algorithm": f"{FILE}:jax"}, "must define one class that derives from metaevo.Strategy"),
        ({"algorithm": NAME, "settings": {"shrnk": 0.5}}, "shrnk"),
        ({"algorithm": f"{__name__}:Unfinished"}, "Unfinished does not define init, ask, tell"),
        ({"algorithm": f"{__name__}:Drifting"}, "Drifting.tell returns .*must be"),
        ({"algorithm": f"{__name__}:Deaf"}, "Deaf.tell raises.*KeyError: 'x'"),
        (object(), "must be an object that derives from metaevo.Strategy"),
        (Fixed, r"Fixed.*must be an object .*such as Fixed\(\)"),
        (Fixed(population_size=None), "population_size = .*must be an integer"),
        (Deaf(), "Deaf.*tell raises.*KeyError"),
    ],
)
def test_invalid_strategies_are_refused_before_compilation(strategy, message):
    if isinstance(strategy, dict):
        strategy = {"population_size": 4} | strategy
    with pytest.raises(ConfigError, match=message) as raised:
        metaevo.evolve(Quadratic(), strategy=strategy)
    assert "\n" not in str(raised.value)
