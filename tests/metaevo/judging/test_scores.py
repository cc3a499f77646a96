import itertools
from dataclasses import replace

import numpy as np
import pytest

from metaevo import statistics
from metaevo.judging.budget import Budget
from metaevo.judging.scores import Scores

BUDGET = Budget(settings=64, screening_seeds=2, finalists=6, selection_seeds=16, seeds=32)
MANY_SEEDS = Budget(settings=64, screening_seeds=4, finalists=6, selection_seeds=64, seeds=128)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(Scores, "resamples", 400)


def judgement(seed=0, gains=(0.0, 0.0), groups=None, budget=BUDGET, tasks=1, tuning=1.0, own=0.0):
    """Normal scores: a setting's quality, a contender's gain, and a seed's luck.

    The quality falls with the squared distance from the best of four hyperparameters.
    It is common to all contenders, but for the part `own`.
    """
    rng, count = np.random.default_rng(seed), len(gains)
    N, s, _, S, H = budget.shape
    common, single = (-rng.chisquare(4, (each, tasks, N, 1)) / 4 for each in (1, count))
    quality = tuning * common + own * single
    quality = quality + np.reshape(gains, (count, 1, 1, 1))

    def trained(places, seeds):
        return (
            places
            + rng.normal(size=(1, tasks, 1, seeds))
            + rng.normal(size=(*places.shape[:3], seeds))
        )

    screening = trained(quality, s)
    best = np.array([[budget.best(each) for each in one] for one in screening])
    finals = np.take_along_axis(quality, best[..., np.newaxis], axis=2)
    names = tuple(f"c{place}" for place in range(count))
    groups = groups or ("new", *[""] * (count - 1))
    task_names = tuple(f"t{place}" for place in range(tasks))
    return Scores(
        names, groups, task_names, screening, best, trained(finals, S), trained(finals, H)
    )


def test_without_tuning_the_score_is_the_interquartile_mean():
    scores = judgement(budget=Budget(settings=0, seeds=40), gains=(2.0, 0.0, 1.0))
    for place, name in enumerate(scores.contenders):
        assert scores.iqm(name).value == statistics.iqm(scores.held_out[place, 0, 0])
        curve = scores.expected(name)
        assert curve.settings.tolist() == [0]
        assert curve.scores == pytest.approx(statistics.iqm(scores.held_out[place, 0, 0]))
    paired = statistics.compare(*scores.held_out[:2, 0, 0], shared_seeds=True)
    found = scores.difference("c0", "c1")
    assert found.value == pytest.approx(paired.difference.value)
    assert found.interval == pytest.approx(paired.difference.interval, abs=0.1)


def test_the_curve_is_the_mean_over_all_subsets_of_the_finalists():
    scores = judgement(tuning=100.0)
    curve = scores.expected("c0")
    means = [statistics.iqm(each) for each in scores.held_out[0, 0]]
    selected = scores.selection[0, 0].mean(axis=1)
    assert curve.settings.tolist() == pytest.approx([0, 12.8, 25.6, 38.4, 51.2, 64])
    for count, found in enumerate(curve.scores):
        subsets = itertools.combinations(range(1, 6), count)
        best = [means[max((0, *each), key=selected.__getitem__)] for each in subsets]
        assert found == pytest.approx(np.mean(best))


@pytest.mark.parametrize(("own", "tuning", "budget"), [(1.0, 0.5, BUDGET), (3.0, 0.0, MANY_SEEDS)])
def test_intervals_cover_the_true_difference(own, tuning, budget):
    """Two equal contenders; with `own` settings and many seeds the luck of tuning is the larger."""
    covered, claims = 0, 0
    for seed in range(150):
        scores = judgement(seed, own=own, tuning=tuning, budget=budget)
        low, high = scores.difference("c0", "c1").interval
        covered += low <= 0 <= high
        claims += scores.verdict().word in ("better", "worse")
    assert covered >= 138
    assert claims <= 8


def test_a_large_gain_is_better_and_a_large_loss_worse():
    verdict = judgement(gains=(3.0, 0.0, 0.5)).verdict()
    assert (verdict.word, verdict.baseline, verdict.settings) == ("better", "c2", 64)
    assert verdict.interval[0] < verdict.difference < verdict.interval[1]
    assert judgement(gains=(0.0, 0.0, 3.0)).verdict().word == "worse"
    assert judgement(gains=(0.0, 0.0, 0.0)).verdict().word == "undecided"
    assert judgement().verdict(margin=5.0).word == "not worse"


def test_a_difference_that_shrinks_with_the_settings_is_no_verdict():
    """The first one is good untuned, and the other one only under a rare setting."""
    scores = judgement(gains=(0.0, 0.0), tuning=0.0)
    for array in (scores.screening, scores.selection, scores.held_out):
        array[0] += 3.8
    for array in (scores.selection, scores.held_out):
        array[1, :, 1] += 2.0  # the best finalist
    verdict = scores.verdict()
    assert verdict.drift < -0.4
    assert verdict.interval[0] > 0
    assert verdict.word == "too few to conclude"
    few = judgement(gains=(9.0, 0.0), budget=replace(BUDGET, settings=8)).verdict()
    assert few.word == "too few to conclude"
    assert judgement(gains=(9.0, 0.0), budget=replace(BUDGET, seeds=8)).verdict().word == few.word


def test_several_evolutions_are_the_units():
    gains, groups = (2.0, 4.0, 6.0, 0.0), ("new",) * 3 + ("",)
    scores = judgement(gains=gains, groups=groups)
    each = [scores.difference(name, "c3") for name in scores.contenders[:3]]
    together = scores.difference("new", "c3")
    assert together.value == pytest.approx(np.mean([one.value for one in each]))
    spread = np.std([one.value for one in each], ddof=1) / np.sqrt(3)
    assert together.interval[1] - together.value >= 4.3 * spread * 0.95  # Student's t, 2 degrees
    assert all(one.interval[0] > 0 for one in each)
    assert scores.verdict().word == "undecided"
    assert scores.verdict("c2").word == "better"
    same = judgement(gains=(3.0, 3.0, 3.0, 3.0, 0.0), groups=("new",) * 4 + ("",))
    assert same.verdict().word == "better"
    assert scores.discoveries == ("new",)
    assert scores.baselines == ("c3",)


def test_tasks_are_pooled_on_their_scales():
    scores = judgement(gains=(2.0, 0.0), tasks=2)
    factor = np.array([1.0, 1000.0]).reshape(1, 2, 1, 1)
    scaled = replace(
        scores,
        screening=scores.screening * factor,
        selection=scores.selection * factor,
        held_out=scores.held_out * factor,
        scale=np.array([[0.0, 1.0], [0.0, 1000.0]]),
    )
    found, plain = scaled.difference("c0", "c1"), scores.difference("c0", "c1")
    assert found.value == pytest.approx(plain.value)
    assert found.interval == pytest.approx(plain.interval)
    first, second = (scaled.difference("c0", "c1", task) for task in scaled.tasks)
    assert second.value > 100 * first.value
    assert np.diff(scores.difference("c0", "c1").interval) < np.diff(first.interval)


def test_missing_scores_count_as_the_worst_and_cannot_win():
    scores = judgement(gains=(1.0, 0.0))
    selection, held_out = scores.selection.copy(), scores.held_out.copy()
    best = list(scores.finalists[0, 0]).index(scores.winner("c0"))
    selection[0, 0, best, 0] = np.nan
    held_out[1, 0, :, 0] = np.nan
    broken = replace(scores, selection=selection, held_out=held_out)
    assert broken.winner("c0") != scores.winner("c0")
    assert np.isfinite(broken.iqm("c1").value)
    selection[:] = np.nan
    nothing = replace(scores, selection=selection)
    assert nothing.winner("c0") == 0
    assert nothing.iqm("c0").value == statistics.iqm(scores.held_out[0, 0, 0])


def test_an_untuned_contender_competes_with_tuned_ones():
    scores = judgement(gains=(4.0, 0.0))
    scores.finalists[0, :, 1:] = -1
    for array in (scores.screening, scores.selection, scores.held_out):
        array[0, :, 1:] = np.nan
    assert scores.winner("c0") == 0
    assert scores.iqm("c0").value == statistics.iqm(scores.held_out[0, 0, 0])
    assert set(scores.expected("c0").scores) == {scores.iqm("c0").value}
    assert scores.expected("c1").scores[0] < scores.expected("c1").scores[-1]


def test_a_file_has_everything(tmp_path):
    scores = judgement(gains=(1.0, 0.0), tasks=2)
    settings = np.random.default_rng(0).random((2, 65, 1))
    scores = replace(scores, hyperparams=("learning_rate",), settings=settings, frames=7)
    again = Scores.load(scores.save(tmp_path / "scores.npz"))
    for name, each in scores.arrays().items():
        np.testing.assert_array_equal(getattr(again, name), each)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.npz"]
    assert again.verdict() == scores.verdict()
    for task in (None, "t1"):
        rows = again.table(task).splitlines()
        assert [row.strip("> ").split()[0] for row in rows[2:-1]] == list(scores.contenders)
        assert again.plot(tmp_path / "scores.png", task).stat().st_size > 1000
    assert "learning_rate" in again.table("t0")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s: replace(s, contenders=("a", "a")), "must be different names"),
        (lambda s: replace(s, groups=("a",)), "must be different names"),
        (lambda s: replace(s, tasks=("a", "b")), "must be"),
        (lambda s: replace(s, selection=np.zeros((2, 1, 3, 4))), "selection has shape"),
        (lambda s: replace(s, finalists=np.ones((2, 1, 6), int)), "must begin with setting 0"),
        (lambda s: replace(s, held_out=np.zeros((2, 1, 6, 0))), "must begin with setting 0"),
        (lambda s: s.iqm("x"), "must be one of"),
        (lambda s: s.iqm("c0", "x"), "must be one of"),
        (lambda s: s.difference("c0", ""), "must be one of"),
        (lambda s: replace(s, groups=("new", "new")).verdict(), "no hand-written"),
    ],
)
def test_wrong_scores_and_names_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(judgement())
