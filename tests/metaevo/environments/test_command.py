"""`metaevo envs`, and what is refused of environments before anything is compiled."""

from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from metaevo.__main__ import help_of
from metaevo.commands import envs as command
from metaevo.config import ConfigError
from metaevo.training.task import TaskConfig, make_environments, make_learner
from purerl import envs
from purerl.envs.registry import SUITES
from purerl.learners import LEARNERS
from tests.purerl.parts.test_masks import Gated, MaskedNumbers, NeverLegal


def test_a_line_for_every_environment_that_needs_no_extra(capsys, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda suite: None)
    assert command.main([], description=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["suite", "name", "raw", "observation", "actions", "time", "limit"]
    assert [line.split()[1] for line in lines[1 : -len(SUITES)]] == envs.names()
    for suite, line in zip(SUITES, lines[-len(SUITES) :], strict=True):
        count = len(SUITES[suite].names)
        assert line == f"{suite}: {count} environments need pip install 'metaevo[{suite}]'"
    (cartpole,) = (line for line in lines if " CartPole-v1" in line)
    assert cartpole.split() == ["gymnax", "CartPole-v1", *["4", "2", "values", "500"]]
    (pendulum,) = (line for line in lines if " Pendulum-v1" in line)
    assert pendulum.split() == ["gymnax", "Pendulum-v1", *["3", "1", "in", "[-2,", "2]", "200"]]
    (frozen,) = (line for line in lines if " FrozenLake-misc" in line)
    assert frozen.split()[2:4] == ["16", "values"]


def test_names_suites_and_patterns():
    assert command.select(["metaevo"]) == ["GridWorld", "GridWorlds", "Doors"]
    assert command.select(["cartpole-V1", "*pole-v1"]) == ["CartPole-v1"]
    assert command.select(["brax"]) == [name for name in envs.suite_names() if "brax/" in name]
    assert "navix/DoorKey-8x8" in command.select(["navix/DoorKey*"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing*", "no environment is called 'nothing*'"),
        ("brax/antt", "unknown environment 'brax/antt'; did you mean brax/ant,"),
        ("jumanji/Sokoban", "cannot build environment 'jumanji/Sokoban': it needs a download"),
        ("craftax", "craftax is not installed: pip install 'metaevo[craftax]'"),
        ("brax/ant", "brax is not installed: pip install 'metaevo[brax]'"),
    ],
)
def test_what_cannot_be_listed_is_one_line(capsys, monkeypatch, name, message):
    monkeypatch.setattr(command, "find_spec", lambda suite: None)
    with pytest.raises(SystemExit, match="2"):
        command.main([name], description=None)
    out, error = capsys.readouterr()
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1
    assert not out


def test_speed_is_measured(capsys):
    assert command.main(["CartPole-v1", "--speed"], description=None) == 0
    title, line = capsys.readouterr().out.splitlines()
    assert title.endswith("steps/s")
    assert int(line.split()[-1].replace(",", "")) > 0


def test_the_help():
    assert "--speed" in help_of("envs")


@pytest.mark.skipif(find_spec("brax") is None, reason="needs pip install 'metaevo[brax]'")
def test_a_robot_is_listed(capsys):
    assert command.main(["brax/reacher"], description=None) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split() == ["brax", "brax/reacher", *["11", "2", "in", "[-1,", "1]", "50"]]


def settings_of(learner):
    return SimpleNamespace(
        learner=learner,
        train=LEARNERS[learner].module.Config(),
        hyperparams=LEARNERS[learner].module.Hyperparams(),
    )


REFUSED = [
    ({"env": "procgen/xyz"}, "ppo", "unknown environment 'procgen/xyz'; known are the suites brax"),
    ({"env": "jumanji/Snak"}, "ppo", "did you mean jumanji/Snake"),
    ({"env": "jumanji/Sokoban"}, "ppo", "it needs a download"),
    ({"env": "pgx/chess"}, "ppo", "it is for several players"),
    ({"env": ("CartPole-v1", "braxx/ant")}, "ppo", "did you mean brax/ant"),
    ({"env": "xminigrid/medium-1m"}, "ppo", "it needs a download"),
]
NEED_PGX = [
    ({"env": "pgx/2048", "env_params": {"pool": 0}}, "ppo", "pool = 0 must be at least 1"),
    ({"env": "pgx/2048", "env_params": {"pool": -3}}, "ppo", "pool = -3 must be at least 1"),
    ({"env": "pgx/2048"}, "q_learning", "has no state index"),
    ({"env": "pgx/2048", "env_params": {"sticky": 1}}, "dqn", "it has: max_steps_in_episode, pool"),
]
NEED_BRAX = [
    ({"env": "brax/ant", "env_params": {"backend": "bullet"}}, "ppo", "must be one of spring"),
    ({"env": "brax/fast", "env_params": {"pool": 0}}, "ppo", "pool = 0 must be at least 1"),
    ({"env": "brax/fast"}, "q_learning", "has no state index"),
]


@pytest.mark.parametrize(
    ("task", "learner", "message"),
    [
        *REFUSED,
        *(
            pytest.param(
                *each,
                marks=pytest.mark.skipif(
                    find_spec("brax") is None, reason="needs pip install 'metaevo[brax]'"
                ),
            )
            for each in NEED_BRAX
        ),
        *(
            pytest.param(
                *each,
                marks=pytest.mark.skipif(
                    find_spec("pgx") is None, reason="needs pip install 'metaevo[pgx]'"
                ),
            )
            for each in NEED_PGX
        ),
    ],
)
def test_what_is_refused(task, learner, message):
    with pytest.raises(ConfigError, match=rf"task\.env: .*{message}") as caught:
        make_environments(TaskConfig(**task), learner)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("learner", "upper"), [("dqn", "DQN"), ("lpg", "LPG")])
def test_discrete_learners_refuse_continuous_actions(learner, upper):
    env, params = envs.make("Pendulum-v1")
    message = f"learner '{learner}' cannot act in Pendulum.*: {upper} needs a discrete action"
    with pytest.raises(ConfigError, match=message):
        make_learner(settings_of(learner), env, params)


@pytest.mark.parametrize(
    ("learner", "env", "message"),
    [
        ("ppo", NeverLegal(), "its mask of legal actions forbids all of them at first"),
        ("dqn", NeverLegal(), "its mask of legal actions forbids all of them at first"),
        ("lpg", Gated(), "has illegal actions, which LPG would take; PPO and DQN do not"),
        ("ppo", MaskedNumbers(), "masks of legal actions need discrete actions"),
    ],
)
def test_masks_that_no_learner_can_use_are_one_line(learner, env, message):
    with pytest.raises(ConfigError, match=rf"^task\.env: learner '{learner}' .*{message}$"):
        make_learner(settings_of(learner), env, env.default_params)
