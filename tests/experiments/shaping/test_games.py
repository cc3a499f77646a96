import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.shaping.games import Game, values, visits
from tests.experiments.shaping.chains import CHICKEN, DILEMMA, PENNIES, chances


@pytest.fixture(scope="module")
def policies():
    """Pairs of policies [16, 2, 5], some of them nearly certain."""
    scale = np.geomspace(0.1, 8, 16)[:, None, None]
    return (scale * np.random.default_rng(0).normal(size=(16, 2, 5))).astype(np.float32)


def discounted_sum(game, own, other, steps=2000):
    state, transition = chances(own, other)
    total = np.zeros(2)
    for step in range(steps):
        total += game.discount**step * np.array([state @ game.own, state @ game.other])
        state = state @ transition
    return (1 - game.discount) * total


@pytest.mark.parametrize("game", [DILEMMA, CHICKEN, PENNIES], ids=["dilemma", "chicken", "pennies"])
def test_values_are_the_discounted_sums(game, policies):
    found = jax.jit(jax.vmap(lambda pair: values(game, pair[0], pair[1])))(policies)
    expected = [discounted_sum(game, *pair) for pair in policies]
    np.testing.assert_allclose(
        np.stack(found, axis=-1), expected, atol=2e-6 * max(map(abs, game.own))
    )


def test_a_long_discount_stays_accurate(policies):
    share = jax.vmap(lambda pair: jnp.stack(visits(0.9999, pair[0], pair[1])))(policies)
    for pair, found in zip(policies, share, strict=True):
        first, transition = chances(*pair)
        exact = np.linalg.solve((np.eye(4) - 0.9999 * transition).T, 1e-4 * first)
        np.testing.assert_allclose(found, exact, atol=5e-3)


def test_the_other_player_sees_the_same_game():
    for game in (DILEMMA, CHICKEN, PENNIES, Game.of([[1, 2], [3, 4]], [[5, 6], [7, 8]], 0.5)):
        assert game.swapped.swapped == game
    assert DILEMMA.swapped == DILEMMA
    assert PENNIES.swapped != PENNIES
    own, other = jnp.array([0.5, 1.0, -1.0, 2.0, -0.5]), jnp.array([-0.5, 2.0, 0.0, -1.0, 1.0])
    there, here = values(PENNIES.swapped, other, own), values(PENNIES, own, other)
    np.testing.assert_allclose(there, here[::-1], rtol=1e-5)
