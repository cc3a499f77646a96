"""The strategy that climbs by gradients, on a problem whose gradient is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError
from metaevo.evolution.checks import check_evolution
from metaevo.evolution.evolution import Evolution, EvolutionConfig
from metaevo.evolution.meta_gradient import MetaGradient
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.strategy import StrategyConfig

KEY = jax.random.key(0)


class Quadratic:
    """Highest at 1, 1, 1."""

    def init(self, key):
        return jnp.zeros(3)

    def evaluate(self, key, meta_params):
        return Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})


class Rounded(Quadratic):
    """Computed by a loop that cannot be differentiated backwards."""

    def evaluate(self, key, meta_params):
        x = jax.lax.while_loop(lambda x: x > 1.0, lambda x: x / 2, jnp.sum(meta_params))
        return Evaluation(x, {})


class Whole(Quadratic):
    """Of whole numbers."""

    def init(self, key):
        return jnp.zeros(3, jnp.int32)


def config_of(**changes):
    settings = {"algorithm": "meta_gradient", "population_size": 2, "learning_rate": 0.1}
    return StrategyConfig(**{**settings, **changes})


def test_it_climbs_and_can_be_divided_into_blocks():
    config = EvolutionConfig(generations=60, validation_seeds=2, num_devices=1, chunk_size=2)
    this = Evolution(Quadratic(), config_of(), config, seed=0)
    state, metrics = this.run_block(this.init(), 60)
    np.testing.assert_allclose(this.result(state), 1.0, atol=0.02)
    assert metrics["fitness_mean"][0] == pytest.approx(-3.0)
    again, _ = this.run_block(this.init(), 25)
    again, _ = this.run_block(again, 35)
    np.testing.assert_array_equal(this.result(again), this.result(state))


def test_gradients_are_clipped_and_filtered():
    strategy = MetaGradient(config_of(optimizer="sgd", population_size=4))
    state = strategy.init(KEY, lambda key: jnp.zeros(2))
    gradients = jnp.array([[0.3, 0.0], [0.0, 400.0], [jnp.nan, 1.0], [0.1, -0.2]])
    told = strategy.tell(KEY, None, Evaluation(jnp.zeros(4), {}, gradients), state)
    np.testing.assert_allclose(told.mean, 0.1 * np.array([0.4, 0.8]) / 4, rtol=1e-5)


@pytest.mark.parametrize(
    ("problem", "changes", "key"),
    [
        (Rounded(), {}, "while_loop"),
        (Whole(), {}, "int32"),
        (Quadratic(), {"settings": {"window": 0}}, "window = 0"),
        (Quadratic(), {"settings": {"windw": 2}}, "'windw'"),
    ],
)
def test_bad_input_is_one_clear_line(problem, changes, key):
    with pytest.raises(ConfigError, match=key) as raised:
        check_evolution(problem, config_of(**changes), EvolutionConfig(num_devices=1))
    assert "\n" not in str(raised.value)
