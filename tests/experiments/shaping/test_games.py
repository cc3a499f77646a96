import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.shaping.games import Game, values, visits
from tests.experiments.shaping.chains import CHICKEN, DILEMMA, PENNIES, chances, total


@pytest.fixture(scope="module")
def policies():
    """Pairs of policies [16, 2, 5], some of them nearly certain."""
    scale = np.geomspace(0.1, 8, 16)[:, None, None]
    return (scale * np.random.default_rng(0).normal(size=(16, 2, 5))).astype(np.float32)


@pytest.mark.parametrize("game", [DILEMMA, CHICKEN, PENNIES], ids=["dilemma", "chicken", "pennies"])
def test_values_are_the_discounted_sums_of_both_players(game, policies):
    """Also from the other player's side, which sees CD as DC."""
    found = jax.jit(jax.vmap(lambda pair: values(game, pair[0], pair[1])))(policies)
    expected = [
        [0.04 * total(game, own, other), 0.04 * total(game.swapped, other, own)]
        for own, other in policies
    ]
    scale = max(map(abs, game.own))
    np.testing.assert_allclose(np.stack(found, axis=-1), expected, atol=2e-6 * scale)


def test_a_long_discount_stays_accurate(policies):
    share = jax.vmap(lambda pair: jnp.stack(visits(0.9999, pair[0], pair[1])))(policies)
    for pair, found in zip(policies, share, strict=True):
        first, transition = chances(*pair)
        exact = np.linalg.solve((np.eye(4) - 0.9999 * transition).T, 1e-4 * first)
        np.testing.assert_allclose(found, exact, atol=5e-3)


def test_the_other_player_sees_the_same_game():
    game = Game(((1, 2), (3, 4)), ((5, 6), (7, 8)), 0.5, 7)
    assert game.swapped == Game(((5, 7), (6, 8)), ((1, 3), (2, 4)), 0.5, 7)
    assert game.swapped.swapped == game
    assert DILEMMA.swapped == DILEMMA
    assert DILEMMA.other == (-1, 0, -3, -2)
