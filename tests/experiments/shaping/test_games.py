import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.shaping import players
from experiments.shaping.games import Game, values, visits

# Repeated games in NumPy and double precision.
DILEMMA = Game()
CHICKEN = Game(((0, -1), (1, -100)))
PENNIES = Game(((1, -1), (-1, 1)), ((-1, 1), (1, -1)))


def chances(own, other):
    """The distribution of the first state [4], and the transition matrix [4, 4]."""
    x, y = (1 / (1 + np.exp(-np.asarray(each, np.float64))) for each in (own, other))
    y = y[[0, 1, 3, 2, 4]]
    joint = np.stack([x * y, x * (1 - y), (1 - x) * y, (1 - x) * (1 - y)], axis=-1)
    return joint[0], joint[1:]


def total(game, own, other):
    first, transition = chances(own, other)
    return first @ np.linalg.solve(np.eye(4) - game.discount * transition, game.both[0])


def slope(function, x, step=1e-4):
    """The gradient [5] by central differences."""
    x = np.asarray(x, np.float64)
    return np.array(
        [(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(5)]
    )


def climb(game, own, other):
    """The gradient [5] of a player's discounted sum in its own policy."""
    return slope(lambda policy: total(game, policy, other), own)


@pytest.fixture(scope="module")
def policies():
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
    scale = np.abs(game.both).max()
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
    np.testing.assert_array_equal(DILEMMA.swapped.both, DILEMMA.both)
    np.testing.assert_array_equal(DILEMMA.both, [[-1, -3, 0, -2], [-1, 0, -3, -2]])


OWN, OTHER = jnp.array([0.5, 1.0, -1.0, 2.0, -0.5]), jnp.array([-0.5, 2.0, 0.0, -1.0, 1.0])
FIRST = jnp.array([0.1, 0.2, 0.3, 0.4, 0.5])
FIXED = {name: each.params for name, each in players.FIXED.items()}


def moved(learner, own=OWN, state=()):
    """The next policy of a player with learning rate 1/2, and its next state."""
    return learner(0.5).step(DILEMMA, 0.5, own, OTHER, state)


def test_learners_climb_their_values():
    np.testing.assert_allclose(
        moved(players.naive)[0] - OWN, 0.5 * climb(DILEMMA, OWN, OTHER), atol=1e-4
    )

    def ahead(own):  # after the other player's naive step
        return total(DILEMMA, own, OTHER + 0.5 * climb(DILEMMA.swapped, OTHER, own))

    far = moved(players.lola)[0]
    np.testing.assert_allclose(far - OWN, 0.5 * slope(ahead, OWN), atol=1e-3)
    assert np.abs(far - moved(players.naive)[0]).max() > 0.1


def test_a_best_response_restarts_and_exploits():
    best, state = moved(players.best_response, state=players.best_response(0.5).init(FIRST))
    np.testing.assert_array_equal(best, moved(players.best_response, OWN + 1.0, state)[0])
    assert total(DILEMMA, best, OTHER) > total(DILEMMA, FIRST, OTHER) + 1.0


@pytest.mark.parametrize(("factor", "level"), [(1.2, 1.0), (2.0, 0.5), (5.0, 0.0)])
def test_a_zero_determinant_strategy_fixes_the_line(factor, level):
    (player,) = players.zero_determinant(DILEMMA, [factor], [level])
    others = 3 * jax.random.normal(jax.random.key(1), (200, 5))
    mine, theirs = jax.vmap(lambda other: values(DILEMMA, player.params, other))(others)
    baseline = -2 + level
    np.testing.assert_allclose(mine - baseline, factor * (theirs - baseline), atol=0.02)
    assert np.ptp(theirs) > 0.1  # a line, not a point


def test_extortion_where_a_game_allows_it():
    for game, factor in ((DILEMMA, 3.0), (CHICKEN, 1.01)):
        best, (found,) = players.zero_determinant(game), players.zero_determinant(game, [factor])
        np.testing.assert_array_equal(best[0].params, found.params)
    assert len(players.zero_determinant(CHICKEN)) == 1
    assert not players.zero_determinant(PENNIES)  # nobody can extort where all is zero-sum


def test_fixed_strategies_earn_the_expected_payoffs():
    tit_for_tat, defector = FIXED["tit_for_tat"], FIXED["always_defect"]
    stay = FIXED["win_stay_lose_shift"]
    np.testing.assert_allclose(values(DILEMMA, tit_for_tat, tit_for_tat), -1.0, atol=0.02)
    # It is exploited once, and then neither cooperates.
    np.testing.assert_allclose(values(DILEMMA, tit_for_tat, defector)[0], -2.04, atol=0.01)
    # It shifts after being exploited and after mutual defection: every second step.
    alternating = -3 / (1 + 0.96) - 2 * 0.96 / (1 + 0.96)
    np.testing.assert_allclose(values(DILEMMA, stay, defector)[0], alternating, atol=0.01)
