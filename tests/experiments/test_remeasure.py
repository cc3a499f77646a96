"""Rules measured again with other agents."""

import pytest

from experiments import remeasure


@pytest.mark.long
def test_with_other_keys_scores_differ_and_tuned_ppo_still_scores_about_one(capsys, monkeypatch):
    def scores() -> list[float]:
        assert remeasure.main(["adam", "dpo", "--tasks", "catch", "--seeds", "3"]) == 0
        *_, adam, dpo = capsys.readouterr().out.strip().splitlines()
        return [float(row.split("|")[3]) for row in (adam, dpo)]

    other = scores()
    assert all(0.5 < score < 1.5 for score in other)
    monkeypatch.setattr(remeasure, "KEYS", 1)  # the benchmark's
    assert scores() != other


@pytest.mark.parametrize(
    "arguments", [["adam", "--tasks", "cartpol"], ["no-rule"], ["adam", "--seeds", "0"]]
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(SystemExit) as error:
        remeasure.main(arguments)
    assert error.value.code == 2
