"""The comparison of strategies: its ranks by hand, and a run that evolves next to nothing."""

import numpy as np
import pytest

from experiments.benchmarks import strategies

SCORES = np.float32([[1.0, 5.0, 3.0, 4.0], [10.0, 0.0, 30.0, 20.0]])
"""Of two tasks; candidates 0 and 2 are a pair, and 1 and 3."""


def test_ranks_by_hand():
    assert strategies.within_pairs(SCORES).tolist() == [-1.0, 0.0, 1.0, 0.0]
    third = 1 / 6
    expected = [-4 * third, 0.0, 2 * third, 2 * third]  # of ranks 0, 3, 1, 2 and 1, 0, 3, 2
    np.testing.assert_allclose(strategies.ranks(SCORES), expected, atol=1e-6)
    # Differences within pairs: -1, +0.5, +1, -0.5.
    alone = strategies.differences(SCORES[:1])
    np.testing.assert_allclose(alone, [-0.5, third, 0.5, -third], atol=1e-6)


@pytest.mark.long
def test_a_tiny_comparison(monkeypatch, capsys):
    monkeypatch.setattr(strategies, "POPULATION", 4)
    monkeypatch.setattr(strategies, "STEPS", 200)
    monkeypatch.setattr(strategies, "TEST_AGENTS", 4)
    score = strategies.Scores(len(strategies.SIGMAS) * 2 * 4)
    bounds = [(0.0, 1.0), (0.0, 2.0)]
    variant = strategies.SEVERAL[2]
    found = strategies.evolve(variant, score, strategies.SLIPS, bounds, 2, [1, 3])
    assert found.shape == (3, 2, 2)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[1], found[2])  # a third of three generations is the last
    assert score.agents == 16 * 2 * (3 + 3)  # generations and tests, on two tasks
