"""Contenders are tuned alike, and an interrupted tuning goes on."""

import itertools

import numpy as np
import pytest

from metaevo.config import ConfigError, from_dict
from metaevo.held_out.evaluation import EvaluationConfig, tuning_seeds
from tests.metaevo.fake_contenders import GRID, Fake, comparison, learned_score


def test_tuning_is_kept_for_the_next_time(tmp_path):
    directory = tmp_path / "tuning"
    first, _ = comparison().run(directory)
    again, frames = comparison(), []
    second, _ = again.run(directory, frames.append)
    assert second == first
    assert again.learned.calls == [(32, 2)]
    assert sum(frames) == again.frames


def test_what_was_found_later_is_tuned_anew(tmp_path):
    """A run that was continued has another component; the baselines' tuning still holds."""
    directory = tmp_path / "tuning"
    comparison().run(directory)
    continued = comparison(meta=2.0)
    continued.run(directory)
    assert continued.learned.calls == [(4, 6), (32, 2)]
    assert continued.baselines.calls == [(32, 3)]


@pytest.mark.parametrize(
    "changed", [{"tuning_seeds": 5}, {"grid": {"vf_coef": (1.0, 3.0)}}, {"task": "a larger grid"}]
)
def test_other_tuning_is_not_reused(tmp_path, changed):
    directory = tmp_path / "tuning"
    comparison().run(directory)
    this = comparison(**changed)
    this.run(directory)
    assert len(this.baselines.calls) == 3


def test_an_interrupted_tuning_goes_on_with_what_is_missing(tmp_path):
    class Interrupted(Fake):
        rows_at_once = 8  # two settings of four seeds

        def run(self, keys, settings, meta_params, progress=None):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().run(keys, settings, meta_params, progress)

    first, _ = comparison().run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        comparison(Interrupted(learned_score)).run(tmp_path / "tuning")
    again, frames = comparison(), []
    second, _ = again.run(tmp_path / "tuning", frames.append)
    assert again.learned.calls == [(4, 2), (32, 2)]
    assert second == first
    assert sum(frames) == again.frames


def test_a_damaged_tuning_is_done_again(tmp_path):
    first, _ = comparison().run(tmp_path / "tuning")
    journals = list(tmp_path.glob("tuning/*/study.journal"))
    assert len(journals) == 3
    for journal in journals:
        journal.write_text("[]\n" * 3)
    with pytest.warns(UserWarning, match="tuning again"):
        second, _ = comparison().run(tmp_path / "tuning")
    assert second == first


@pytest.mark.parametrize("sampler", ["sobol", "tpe"])
def test_contenders_can_be_tuned_over_a_space(tmp_path, sampler):
    def score(setting, meta, luck):
        rate = setting.get("learning_rate", 1.0)
        return luck - 4.0 * np.abs(np.log10(rate) + 2.0)

    space = {"learning_rate": {"log_uniform": [1e-4, 1.0]}}
    config = {"grid": {}, "space": space, "sampler": sampler, "trials": 24}
    this, frames = comparison(Fake(score), **config), []
    result, _ = this.run(tmp_path / "tuning", frames.append)
    rows = {row["name"]: row for row in result["variants"]}
    assert 10**-2.5 < rows["learned (tuned)"]["settings"]["learning_rate"] < 10**-1.5
    assert rows["learned (tuned)"]["tuning_frames"] == 24 * 4 * 10
    assert sum(frames) == this.frames
    # The same sampler with the same seed: not adaptive ones try the same settings for everybody.
    assert sum(settings for seeds, settings in this.baselines.calls if seeds == 4) == 48


def test_an_infinite_limit_survives_the_cache(tmp_path):
    def score(setting, meta, luck):
        return luck + 9.0 * np.isinf(setting.get("max_grad_norm", 0.0))

    for _ in range(2):
        this = comparison(Fake(score), grid={"max_grad_norm": (0.5, float("inf"))})
        result, _ = this.run(tmp_path / "tuning")
        rows = {row["name"]: row for row in result["variants"]}
        assert rows["learned (tuned)"]["settings"] == {"max_grad_norm": float("inf")}
    assert this.learned.calls == [(32, 2)]


def test_all_combinations_of_a_grid_are_tried(tmp_path):
    tried = []

    def score(setting, meta, luck):
        tried.append(setting)
        return luck

    this = comparison(Fake(score))
    this.run(tmp_path / "tuning")
    expected = [
        {"learning_rate": rate, "vf_coef": coefficient}
        for rate, coefficient in itertools.product(*GRID.values())
    ]
    assert tried[:6] == expected
    assert this.config.combinations == 6
    assert EvaluationConfig().combinations == 0


def test_tuning_can_use_as_many_frames_as_evolution():
    config = EvaluationConfig(grid=GRID, tuning_seeds=None)
    assert tuning_seeds(config, 10, 12_000) == 200
    assert tuning_seeds(config, 10, 1) == 1
    assert comparison(tuning_seeds=None).tuning_seeds == 200


def test_an_empty_axis_is_refused():
    with pytest.raises(ConfigError, match=r"grid\.vf_coef"):
        from_dict(EvaluationConfig, {"grid": {"vf_coef": []}})


def test_a_setting_that_diverges_is_not_chosen(tmp_path):
    def score(setting, meta, luck):
        values = learned_score(setting, meta, luck)
        if setting.get("learning_rate") == 0.2:
            values[0] = np.nan
        return values

    result, _ = comparison(Fake(score)).run(tmp_path / "tuning")
    rows = {row["name"]: row for row in result["variants"]}
    assert rows["learned (tuned)"]["settings"]["learning_rate"] != 0.2
