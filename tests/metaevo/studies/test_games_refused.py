"""Settings of games that cannot work: one line names the setting, and no run begins."""

import pytest

from tests.metaevo.studies.games import SHAPING, TALK, merged, run

SHAPING_CASES = {
    "infinite payoffs": ({"game": {"payoffs": [[1, 2], [3, float("inf")]]}}, "payoffs"),
    "an unknown player": ({"opponent": {"names": "niave"}}, "opponent.names: 'niave'"),
    "not in the zoo": ({"opponent": {"names": "zoo:dpp"}}, "opponent.names: 'zoo:dpp'"),
    "an entry for learners": ({"opponent": {"names": "zoo:dpo"}}, "opponent.names: 'zoo:dpo'"),
    "too long": ({"opponent": {"names": "a" * 5000}}, "opponent.names"),
    "twice": ({"opponent": {"names": ["naive", "naive"]}}, "opponent.names: 'naive'"),
    "nobody learns": ({"opponent": {"names": "tit_for_tat"}}, "opponent.names: tit_for_tat"),
    "no gradient": ({"game": {"opponent_payoffs": [[1, 1], [1, 1]]}}, "game.opponent_payoffs"),
    "no extortion": (
        {"game": {"payoffs": [[1, -1], [-1, 1]], "opponent_payoffs": [[-1, 1], [1, -1]]},
         "evaluation": {"opponents": ["zero_determinant"]}},
        "evaluation.opponents: zero_determinant",
    ),
    "a component as a study": ({"study": "value_loss"}, "evolve: value_loss"),
    "a learner": ({"learner": "ppo"}, "'learner'"),
}  # fmt: skip
TALK_CASES = {
    "numbers of states": (
        {"learner": "q_learning", "task": {"env": "GridWorld"},
         "train": {"total_timesteps": 256, "num_steps": 32}},
        "learner = 'q_learning'",
    ),
    "images": ({"task": {"env": "Breakout-MinAtar"}}, "task.env"),
    "several environments": ({"task": {"env": ["CartPole-v1", "Acrobot-v1"]}}, "task.env"),
    "a distribution": ({"task": {"env": "GridWorlds"}}, "task.env"),
    "an unknown victim": (
        {"evaluation": {"victims": {"sac": {"learner": "sac"}}}}, "evaluation.victims.sac: learner"
    ),
    "a victim's typo": (
        {"evaluation": {"victims": {"fast": {"hyperparams": {"learning_rat": 1}}}}},
        "evaluation.victims.fast",
    ),
    "a victim's name": ({"evaluation": {"victims": {"ppo": {}}}}, "evaluation.victims.ppo"),
    "a length to draw": ({"sample": {"updates": {"integer": [1, 2]}}}, "sample.updates"),
    "a channel to draw": ({"sample": {"channel.scale": {"uniform": [1, 2]}}}, "sample"),
    "a typo to draw": ({"sample": {"env_params.lenght": {"uniform": [0.2, 2]}}}, "lenght"),
    "out of bounds": ({"sample": {"hyperparams.gamma": {"uniform": [0.5, 1.5]}}}, "sample"),
}  # fmt: skip
CASES = [
    pytest.param(base, *case, id=f"{base['study']}: {name}")
    for base, cases in (
        (SHAPING, SHAPING_CASES), (TALK, TALK_CASES)
    )
    for name, case in cases.items()
]  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "setting"), CASES)
def test_bad_input_is_one_line(base, changes, setting, tmp_path, refused):
    settings = merged(base, changes)
    if "learner" in changes and "train" in changes:
        settings["train"] = changes["train"]
    assert setting in refused(run, settings, tmp_path)
    assert not (tmp_path / "run").exists()
