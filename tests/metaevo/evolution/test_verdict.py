"""What a comparison found, in words: of this version and of earlier ones."""

import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.reports import page
from metaevo.studies import verdict


def row(name, iqm, *, tuned=True, **changed):
    return {
        "name": f"{name} ({'tuned' if tuned else 'same hyperparameters'})",
        "function": name,
        "settings": {"learning_rate": 0.0007, "max_grad_norm": None} if tuned else {},
        "tuning_frames": 1000 * tuned,
        "seeds": 4,
        "scores": [iqm - 1, iqm, iqm, iqm + 1],
        "iqm": iqm,
        "interval": [iqm - 1, iqm + 1],
        "mean": iqm,
        "diverged": 0,
        **changed,
    }


def result(conclusion="undecided", difference=0.5, interval=(-3.0, 4.0), *, best=None, **changed):
    """The content of an evaluation.json of an earlier version, without `against_best`."""
    best = best or row("squared", 100.0)
    learned = row("learned", 100.0 + difference)
    pair = {
        "learned": learned["name"],
        "other": best["name"],
        "conclusion": conclusion,
        "difference": difference,
        "difference_interval": list(interval),
        "probability_of_improvement": 0.55,
        "probability_interval": [0.4, 0.7],
    }
    return {
        "variants": [row("learned", 90.0, tuned=False), learned, best],
        "pairs": [pair],
        "learned": learned["name"],
        "best_hand_written": best["name"],
        "conclusion": conclusion,
        "tuning_settings": 5,
        "tuning_seeds": 8,
        **changed,
    }


@pytest.mark.parametrize(
    ("conclusion", "difference", "interval", "words"),
    [
        ("better", 5.0, (1.0, 9.0), "difference is +5.0 [+1.0, +9.0] (95% interval)"),
        ("worse", -5.0, (-9.0, -1.0), "difference is -5.0 [-9.0, -1.0] (95% interval)"),
        (
            "undecided",
            0.5,
            (-3.0, 4.0),
            "difference is +0.5 [-3.0, +4.0] (95% interval)",
        ),
        ("undecided", 5.0, (1.0, 9.0), "leaves out zero, but a rank test"),
    ],
)
def test_the_three_verdicts(conclusion, difference, interval, words):
    text = verdict.conclusion_text(result(conclusion, difference, interval))
    assert text.startswith(f"{conclusion.capitalize()}: learned ")
    assert words in text
    assert "squared 100, the best hand-written one" in text
    assert "either" not in text  # nobody is said to be no better
    assert "Each was tuned over 5 settings x 8 seeds (1,000 frames)." in text
    assert "same hyperparameters" not in text


def test_the_verdict_against_the_strongest_counts_where_there_is_one():
    old = result("better", 5.0, (1.0, 9.0))
    new = old | {"against_best": {**old["pairs"][0], "conclusion": "undecided",
                                  "difference_interval": [-1.0, 11.0]}}  # fmt: skip
    assert verdict.outcome(old).conclusion == "better"
    assert verdict.outcome(new).conclusion == "undecided"
    assert verdict.outcome(new).difference == "+5 [-1, +11]"


def test_an_untuned_contender_is_not_said_to_be_tuned():
    """Comparisons of earlier versions let the untuned reference win."""
    text = verdict.conclusion_text(result(best=row("squared", 100.0, tuned=False)))
    assert "learned was tuned over 5 settings" in text
    assert "squared is strongest with the run's hyperparameters" in text
    assert "ach was tuned" not in text
    neither = result(best=row("squared", 100.0, tuned=False))
    for each in neither["variants"]:
        each["tuning_frames"] = 0
    assert "Neither was tuned" in verdict.conclusion_text(neither)


def test_a_race_is_told():
    text = verdict.conclusion_text(result(tuning_rounds=[[13, 4], [4, 64]]))
    assert "Each was tuned by a race of 5 settings" in text
    assert "the last 4 on 64 fresh seeds" in text


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.123, 0.1, 0.15), "+0.123 [+0.100, +0.150]"),
        ((35.4, 20.2, 51.9), "+35 [+20, +52]"),
        ((-12345.6, -20000, 3000), "-12,346 [-20,000, +3,000]"),
        ((2.0, 2.0, 2.0), "+2.000 [+2.000, +2.000]"),
        ((1e-20, -1e-20, 3e-20), "+0.000000000000 [-0.000000000000, +0.000000000000]"),
    ],
)
def test_differences_have_the_decimals_that_their_interval_is_worth(numbers, expected):
    assert page.signed(*numbers) == expected


def test_tables():
    table = verdict.contenders(result())
    assert list(table.columns) == ["variant", "IQM", "95% interval", "P(learned is better)"]
    assert table.rows[2][3] == "0.55 [0.40, 0.70]"
    assert table.highlight == [0, 1]
    diverged = verdict.contenders(result(best=row("squared", 1.0, diverged=3)))
    assert diverged.columns[-1] == "diverged"
    assert [cells[-1] for cells in diverged.rows] == [0, 0, 3]
    (tuned,) = verdict.tuned_settings(result())
    assert [cells[0] for cells in tuned.rows] == ["learned", "squared"]
    assert tuned.rows[0][1] == "learning_rate=0.0007, max_grad_norm=inf"
    untuned = result(variants=[row("learned", 1.0, tuned=False)])
    assert verdict.tuned_settings(untuned) == []


def test_tables_and_verdict_fit_80_columns(monkeypatch):
    monkeypatch.setattr("metaevo.reports.page._terminal_width", lambda: 80)
    settings = {f"hyperparameter_{i}": 0.1 + i for i in range(6)}
    wide = result(best=row("clipped_squared", 12345.6, settings=settings))
    for table in (verdict.contenders(wide), *verdict.tuned_settings(wide)):
        lines = table.text().splitlines()
        assert max(map(len, lines)) <= 80
        words = {word.rstrip(",") for line in lines for word in line.split()}
        if "tuned to" in table.columns:
            assert {f"hyperparameter_{i}={0.1 + i}" for i in range(6)} <= words  # none is cut


def test_few_evolved_numbers_are_named():
    tree = {"tilt": jnp.float32(3.1), "knots": np.array([1.0, -0.25])}
    numbers = verdict.evolved_numbers(tree)
    assert numbers == {"tilt": pytest.approx(3.1), "knots[0]": 1.0, "knots[1]": -0.25}
    assert verdict.numbers_text(numbers) == "Evolved: knots[0] = 1, knots[1] = -0.25, tilt = 3.1."
    assert verdict.evolved_numbers({"kernel": np.zeros((3, 5))}) == {}
    assert list(verdict.evolved_numbers(np.float32(2.0)).values()) == [2.0]
    assert verdict.evolved_numbers({}) == {}
