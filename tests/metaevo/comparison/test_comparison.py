"""The held-out protocol with contenders of known scores."""

import json

import jax
import numpy as np
import pytest

from metaevo.config.files import write_json_atomic
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts.part import LEARNED
from tests.metaevo.fake_contenders import NAMES, Fake, comparison


def test_the_planted_setting_is_found_and_evaluation_json_has_all_numbers(tmp_path):
    result, scores = comparison().run(tmp_path / "tuning")
    write_json_atomic(tmp_path / "evaluation.json", result)
    result = json.loads((tmp_path / "evaluation.json").read_text())
    rows = {row["name"]: row for row in result["variants"]}
    assert list(rows) == list(scores)
    assert set(rows) == {
        "learned (same hyperparameters)",
        "squared (same hyperparameters)",
        "learned (tuned)",
        "squared (tuned)",
        "huber (tuned)",
    }
    assert rows["learned (tuned)"]["settings"] == {"learning_rate": 0.2, "vf_coef": 2.0}
    for name in NAMES:
        assert rows[f"{name} (tuned)"]["settings"]["learning_rate"] == 0.3
    assert rows["learned (same hyperparameters)"]["settings"] == {}
    assert rows["learned (tuned)"]["iqm"] == pytest.approx(20, abs=0.5)
    assert rows["huber (tuned)"]["iqm"] == pytest.approx(8, abs=0.5)
    for name, row in rows.items():
        assert row["seeds"] == len(row["scores"]) == 32
        assert row["scores"] == scores[name].scores.tolist()
        low, high = row["interval"]
        assert low <= row["iqm"] <= high
        assert row["tuning_frames"] == ((7 * 4 + 4 * 64) * 10 if "tuned" in name else 0)
        assert row["diverged"] == 0
    assert result["learned"] == "learned (tuned)"
    assert {pair["other"] for pair in result["pairs"]} == set(scores) - {"learned (tuned)"}
    for pair in result["pairs"]:
        low, high = pair["probability_interval"]
        assert 0 <= low <= pair["probability_of_improvement"] <= high <= 1
    assert (result["tuning_settings"], result["tuning_seeds"]) == (7, 4)
    assert result["tuning_rounds"] == [[7, 4], [4, 64]]
    assert result["best_hand_written"] == result["against_best"]["other"] == "huber (tuned)"
    assert result["conclusion"] == result["against_best"]["conclusion"] == "better"


@pytest.mark.parametrize(("meta", "conclusion"), [(-1.0, "worse"), (-0.2, "undecided")])
def test_the_conclusion_is_honest(tmp_path, meta, conclusion):
    """With 10 from tuning, -0.2 gives a learned score of 8, as tuned Huber has."""
    result, _ = comparison(meta=meta).run(tmp_path / "tuning")
    assert result["conclusion"] == conclusion


def test_seeds_are_disjoint(tmp_path):
    this = comparison(seeds=40, tuning_seeds=30)
    raced = 30 + 64
    this.run(tmp_path / "tuning")

    def words(purpose, count):
        keys = jax.vmap(jax.random.fold_in, (0, None))(keys_for(0, purpose, count), 0)
        data = np.asarray(jax.random.key_data(keys))
        return set(map(tuple, data.tolist()))

    used = {purpose: words(purpose, raced) for purpose in Purpose}
    for population in (this.learned, this.baselines):
        assert population.keys == used[Purpose.TUNING] | words(Purpose.HELD_OUT, 40)
    everything = [key for keys in used.values() for key in keys]
    assert len(set(everything)) == len(everything)


def test_several_discoveries_meet_the_same_contenders(tmp_path):
    this, frames = comparison(others=(-1.0, 2.0)), []
    result, scores = this.run(tmp_path / "tuning", frames.append)
    race = [(4, 7), (64, 4)]
    assert this.baselines.calls == [*race, *race, (32, 3)]  # as with one discovery
    assert this.learned.calls == [*race, *race, *race, (32, 6)]
    assert sum(frames) == this.frames
    assert [each["learned"] for each in result["evolutions"]] == [
        "learned (tuned)", "learned 2 (tuned)", "learned 3 (tuned)"
    ]  # fmt: skip
    assert [each["conclusion"] for each in result["evolutions"]] == ["better", "worse", "better"]
    assert {each["other"] for each in result["evolutions"]} == {"huber (tuned)"}
    together = result["together"]
    assert (together["better"], together["evolutions"]) == (2, 3)
    means = [20.0, 0.0, 30.0]  # by tuning 10 more than without
    assert together["iqm"] == pytest.approx(np.mean(means), abs=0.5)
    assert together["conclusion"] == "undecided"
    alone, _ = comparison().run(tmp_path / "alone")
    rows = {row["name"]: row for row in result["variants"]}
    for row in alone["variants"]:
        assert rows[row["name"]] == row
    for key in ("learned", "best_hand_written", "against_best", "conclusion", "tuning_rounds"):
        assert result[key] == alone[key]
    own = [each for each in result["pairs"] if each["learned"] == "learned (tuned)"]
    assert own == alone["pairs"]
    assert "evolutions" not in alone
    assert list(scores) == list(rows)


def test_without_a_grid_nothing_is_tuned(tmp_path):
    this = comparison(space={})
    result, _ = this.run(tmp_path / "tuning")
    assert [row["name"].split()[0] for row in result["variants"]] == [LEARNED, *NAMES]
    assert all(row["tuning_frames"] == 0 for row in result["variants"])
    assert result["tuning_settings"] == 0
    assert this.frames == 3 * 32 * 10


def test_a_missing_score_counts_as_the_worst(tmp_path):
    """Where returns are negative, a zero would make it the winner."""

    class Failing(Fake):
        def train(self, keys, hyperparams, meta_params, progress=None):
            trained = super().train(keys, hyperparams, meta_params, progress)
            trained.scores[:, :2] = np.nan  # the first one diverged, the second has no episode
            trained.diverged[:, 0] = True
            return trained

    failing = Failing(lambda hyperparams, index, luck: luck - 100.0)
    result, _ = comparison(failing, space={}).run(tmp_path / "tuning")
    rows = {row["function"]: row for row in result["variants"]}
    assert [row["diverged"] for row in rows.values()] == [1, 0, 0]
    scores = rows["learned"]["scores"]
    assert scores[0] == scores[1] == min(scores)
