"""All contenders are tuned alike, and an interrupted tuning continues."""

import itertools

import numpy as np
import pytest

from metaevo.comparison.evaluation import QUICK, resized
from metaevo.comparison.racing import cost, rounds_of
from tests.metaevo.fake_contenders import GRID, Fake, comparison, learned_score

CALLS = [(4, 7), (64, 4)]
"""(seeds, settings) of one contender's race: the grid and the untuned setting, the final."""


def test_tuning_is_kept_until_something_it_depends_on_changes(tmp_path):
    directory = tmp_path / "tuning"
    first, _ = comparison().run(directory)
    again, frames = comparison(), []
    second, _ = again.run(directory, frames.append)
    assert second == first
    assert again.learned.calls == [(32, 2)]
    assert sum(frames) == again.frames
    continued = comparison(meta=2.0)  # of a run with more generations
    continued.run(directory)
    assert continued.learned.calls == [*CALLS, (32, 2)]
    assert continued.baselines.calls == [(32, 3)]
    for changed in ({"tuning_seeds": 5}, {"space": {"vf_coef": (1.0, 3.0)}}, {"task": "larger"}):
        this = comparison(**changed)
        this.run(directory)
        assert len(this.baselines.calls) >= 3  # beside the held-out seeds


def test_a_damaged_tuning_is_done_again(tmp_path):
    first, _ = comparison().run(tmp_path / "tuning")
    files = list(tmp_path.glob("tuning/*/race.json"))
    assert len(files) == 3
    for file in files:
        file.write_text("[]\n" * 3)
    with pytest.warns(UserWarning, match="tuning again"):
        second, _ = comparison().run(tmp_path / "tuning")
    assert second == first


def test_scores_without_their_settings_are_not_used(tmp_path):
    """As an earlier version kept them."""
    first, _ = comparison().run(tmp_path / "tuning")
    for file in tmp_path.glob("tuning/*/race.json"):
        file.write_text('{"0/0": 1e9, "0/6": 1e9, "1/0": 1e9}')
    second, _ = comparison().run(tmp_path / "tuning")
    assert second == first


@pytest.mark.parametrize("sampler", ["sobol", "tpe"])
def test_contenders_can_be_tuned_over_a_space(tmp_path, sampler):
    def score(hyperparams, meta, luck):
        return luck - 4.0 * np.abs(np.log10(hyperparams.learning_rate) + 2.0)

    space = {"learning_rate": {"log_uniform": [1e-4, 1.0]}}
    config = {"space": space, "sampler": "tpe", "trials": 24}
    this, frames = comparison(Fake(score), **config), []
    result, _ = this.run(tmp_path / "tuning", frames.append)
    rows = {row["name"]: row for row in result["variants"]}
    assert 10**-2.5 < rows["learned (tuned)"]["settings"]["learning_rate"] < 10**-1.5
    assert rows["learned (tuned)"]["tuning_frames"] == cost(rounds_of(25, 4)) * 10
    assert sum(frames) == this.frames
    calls = [settings for seeds, settings in this.baselines.calls if seeds == 4]
    assert sum(calls) == 2 * (24 + 1 + 13)


def test_an_infinite_limit_survives_the_cache(tmp_path):
    def score(hyperparams, meta, luck):
        return luck + 9.0 * np.isinf(hyperparams.max_grad_norm)

    for _ in range(2):
        this = comparison(Fake(score), space={"max_grad_norm": (0.5, float("inf"))})
        result, _ = this.run(tmp_path / "tuning")
        rows = {row["name"]: row for row in result["variants"]}
        assert rows["learned (tuned)"]["settings"] == {"max_grad_norm": float("inf")}
    assert this.learned.calls == [(32, 2)]


def test_all_combinations_of_a_grid_are_tried(tmp_path):
    tried = []

    def score(hyperparams, meta, luck):
        tried.append({name: getattr(hyperparams, name) for name in GRID})
        return luck

    this = comparison(Fake(score))
    this.run(tmp_path / "tuning")
    expected = [
        {"learning_rate": rate, "vf_coef": coefficient}
        for rate, coefficient in itertools.product(*GRID.values())
    ]
    assert tried[:6] == expected
    assert tried[6] == {"learning_rate": 2.5e-4, "vf_coef": 0.5}  # untuned
    assert this.plan.settings == 6 + 1


def test_tuning_can_use_as_many_frames_as_evolution():
    this = comparison(tuning_seeds=None)  # 12,000 frames of evolution, 10 an agent
    agents = cost(this.plan.rounds)
    assert agents <= 1200 < cost(rounds_of(7, this.plan.first_seeds + 1))
    least = comparison(tuning_seeds=None, evolution_frames=1)
    assert least.plan.first_seeds == 1


def test_the_untuned_setting_is_among_the_candidates(tmp_path):
    """Once: of a grid that contains it, it is one of the combinations."""
    inside = {"learning_rate": (2.5e-4, 1e-3), "vf_coef": (0.5, 1.0)}
    assert comparison(space=inside).plan.settings == 4
    assert comparison(space=inside).plan.place == 0
    assert comparison().plan.settings == 7

    def score(hyperparams, meta, luck):
        return 10.0 * (hyperparams.learning_rate == 2.5e-4) + luck

    result, _ = comparison(Fake(score), Fake(score)).run(tmp_path / "tuning")
    for row in result["variants"]:
        if row["tuning_frames"]:
            assert row["settings"] == {"learning_rate": 2.5e-4, "vf_coef": 0.5}, row["name"]


@pytest.mark.parametrize(("sampler", "call"), [("grid", 1), ("grid", 5), ("tpe", 1), ("tpe", 3)])
def test_an_interrupted_tuning_resumes_exactly(tmp_path, sampler, call):
    """Of a race of three rounds; and nothing that was finished is trained again."""

    class Interrupted(Fake):
        rows_at_once = 4

        def train(self, keys, hyperparams, meta_params, progress=None):
            if len(self.calls) == call:
                raise KeyboardInterrupt
            return super().train(keys, hyperparams, meta_params, progress)

    grid = {"learning_rate": (0.1, 0.2, 0.3), "vf_coef": (1.0, 2.0, 3.0)}
    tuning = {"space": grid, "sampler": sampler, "trials": 24}
    whole = comparison(**tuning)
    first, _ = whole.run(tmp_path / "whole")
    before = Interrupted(learned_score)
    with pytest.raises(KeyboardInterrupt):
        comparison(before, **tuning).run(tmp_path / "tuning")
    again = comparison(**tuning)
    second, _ = again.run(tmp_path / "tuning")
    assert second == first
    agents = sum(seeds * count for seeds, count in before.calls + again.learned.calls)
    assert agents == cost(whole.plan.rounds) + 2 * 32


def test_a_smaller_comparison_needs_no_more_trainings():
    full = {"seeds": 256, "trials": 8, "tuning_seeds": None, "sampler": "grid", "unseen": {"a": {}}}
    quick = resized(full, "quick")
    assert quick["seeds"] < 256
    assert quick["trials"] == 8
    assert quick["tuning_seeds"] == QUICK["tuning_seeds"]
    assert quick["sampler"] != "grid"  # of which the number of settings cannot be chosen
    assert resized(full, "none")["seeds"] == 0
    assert resized(full, "none")["unseen"] == {}
    assert resized(full, "full") == full
    assert resized({"seeds": 3}, "quick") == {"seeds": 3}  # other studies have fewer settings
