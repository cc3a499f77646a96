"""Learning and fixed opponents: gradients by differences, and the line of extortion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.shaping import opponents
from experiments.shaping.games import values
from tests.experiments.shaping.chains import CHICKEN, DILEMMA, PENNIES, slope, total

OWN, OTHER = jnp.array([0.5, 1.0, -1.0, 2.0, -0.5]), jnp.array([-0.5, 2.0, 0.0, -1.0, 1.0])
FIRST = jnp.array([0.1, 0.2, 0.3, 0.4, 0.5])


def test_a_naive_learner_climbs_its_own_value():
    moved, _ = opponents.naive.step(DILEMMA, 0.5, OWN, OTHER, ())
    climb = slope(lambda own: total(DILEMMA, own, OTHER), OWN)
    np.testing.assert_allclose(moved - OWN, 0.5 * climb, atol=1e-4)


def test_lola_climbs_its_value_after_the_others_step():
    def ahead(own):
        climb = slope(lambda other: total(DILEMMA.swapped, other, own), OTHER)
        return total(DILEMMA, own, OTHER + 0.5 * climb)

    moved, _ = opponents.lola.step(DILEMMA, 0.5, OWN, OTHER, ())
    np.testing.assert_allclose(moved - OWN, 0.5 * slope(ahead, OWN), atol=1e-3)
    assert np.abs(moved - opponents.naive.step(DILEMMA, 0.5, OWN, OTHER, ())[0]).max() > 0.1


@pytest.mark.long
def test_lola_finds_tit_for_tat_where_naive_learners_defect():
    """Foerster et al. 2018: two naive learners earn about -2 each, two LOLA learners about -1."""

    def earned(player):
        def episode(key):
            return opponents.play(DILEMMA, player, player, opponents.draw_start(key)).own[-1]

        return float(jnp.mean(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 32))))

    assert earned(opponents.naive) < -1.8
    assert earned(opponents.lola) > -1.4


def test_a_best_response_restarts_and_exploits():
    state = opponents.best_response.init(FIRST)
    moved, state = opponents.best_response.step(DILEMMA, 1.0, OWN, OTHER, state)
    again, _ = opponents.best_response.step(DILEMMA, 1.0, OWN + 1.0, OTHER, state)
    np.testing.assert_array_equal(moved, again)
    assert total(DILEMMA, moved, OTHER) > total(DILEMMA, FIRST, OTHER) + 1.0


@pytest.mark.parametrize(("factor", "level"), [(1.2, 1.0), (2.0, 0.5), (5.0, 0.0)])
def test_a_zero_determinant_strategy_fixes_the_line(factor, level):
    found = opponents.zero_determinant(DILEMMA, factor, level)
    own = opponents.fixed(found).step(DILEMMA, 1.0, OWN, OTHER, ())[0]
    others = 3 * jax.random.normal(jax.random.key(1), (200, 5))
    mine, theirs = jax.vmap(lambda other: values(DILEMMA, own, other))(others)
    baseline = -2 + level
    np.testing.assert_allclose(mine - baseline, factor * (theirs - baseline), atol=0.02)
    assert np.ptp(theirs) > 0.1  # a line, not a point


def test_extortion_where_a_game_allows_it():
    assert np.allclose(opponents.extortionate(DILEMMA), opponents.zero_determinant(DILEMMA, 3.0))
    np.testing.assert_allclose(
        opponents.extortionate(CHICKEN), opponents.zero_determinant(CHICKEN, 1.01)
    )
    assert opponents.zero_determinant(CHICKEN, 2.0) is None
    assert opponents.extortionate(PENNIES) is None  # nobody can extort where all is zero-sum


def test_fixed_strategies_earn_the_expected_payoffs():
    tit_for_tat = opponents.logits(opponents.FIXED["tit_for_tat"])
    defector = opponents.logits(opponents.FIXED["always_defect"])
    stay = opponents.logits(opponents.FIXED["win_stay_lose_shift"])
    np.testing.assert_allclose(values(DILEMMA, tit_for_tat, tit_for_tat), -1.0, atol=0.02)
    # It is exploited once, and then neither cooperates.
    np.testing.assert_allclose(values(DILEMMA, tit_for_tat, defector)[0], -2.04, atol=0.01)
    # It shifts after being exploited and after mutual defection: every second step.
    alternating = -3 / (1 + 0.96) - 2 * 0.96 / (1 + 0.96)
    np.testing.assert_allclose(values(DILEMMA, stay, defector)[0], alternating, atol=0.01)
