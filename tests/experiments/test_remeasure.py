"""Rules measured again with other agents."""

import pytest

from experiments import remeasure


@pytest.mark.long
def test_with_other_keys_tuned_ppo_still_scores_about_one(capsys):
    assert remeasure.main(["adam", "dpo", "--tasks", "catch", "--seeds", "3"]) == 0
    *_, adam, dpo = capsys.readouterr().out.strip().splitlines()
    for row in (adam, dpo):
        assert 0.5 < float(row.split("|")[3]) < 1.5


@pytest.mark.parametrize(
    "arguments", [["adam", "--tasks", "cartpol"], ["no-rule"], ["adam", "--seeds", "0"]]
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(SystemExit) as error:
        remeasure.main(arguments)
    assert error.value.code == 2
