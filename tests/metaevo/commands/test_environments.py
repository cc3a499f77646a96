import pytest
from gymnax.environments import spaces

from metaevo.commands import envs as command
from metaevo.config import ConfigError
from metaevo.parts import learners
from metaevo.tasks.task import Setup
from purerl import envs
from tests.purerl.test_nested import Nested


@pytest.mark.parametrize("is_installed", [True, False])
def test_every_environment_has_a_line_with_what_it_needs(is_installed, capsys, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda suite: is_installed or None)
    assert command.main([]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {line[0]: " ".join(line[2:]) for line in lines if len(line) > 1}
    assert {*envs.names(), *envs.suite_names()} <= found.keys()
    extra = "" if is_installed else "pip install 'metaevo[brax]'"
    assert (found["GridWorld"], found["brax/ant"]) == ("", extra)
    assert found["MNISTBandit-bsuite"] == "a download"


def test_names_suites_and_patterns():
    assert [*command.select(["metaevo"])] == ["GridWorld", "GridWorlds"]
    assert [*command.select(["cartpole-V1", "*pole-v1"])] == ["CartPole-v1"]
    assert [*command.select(["brax"])] == [name for name in envs.suite_names() if "brax/" in name]
    assert "navix/DoorKey-8x8" in command.select(["navix/DoorKey*"])


@pytest.mark.parametrize(
    "name", ["nothing*", "brax/antt", "pgx/2048", "examples/corridor.py:Corridor"]
)
def test_unknown_names_are_refused_in_one_line(refused, name):
    refused(command.main, [name])


class ByParts(Nested):
    def action_space(self, params=None):
        return spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])

    def step_env(self, key, state, action, params):
        return super().step_env(key, state, action[0], params)


@pytest.mark.parametrize(
    ("learner", "env"), [("dqn", envs.make("Pendulum-v1")[0]), ("ppo", ByParts())]
)
def test_environments_that_a_learner_cannot_use_are_refused(learner, env):
    entry = learners.find(learner)
    given = learner, entry.config(), entry.hyperparams(), env.name, env, env.default_params
    with pytest.raises(ConfigError, match=rf"^task\.env: learner '{learner}' ") as caught:
        Setup(*given).bind({})
    assert "\n" not in str(caught.value)
