"""`metaevo envs`, and what is refused of environments before anything is compiled."""

from types import SimpleNamespace

import pytest
from gymnax.environments import spaces

from metaevo.commands import envs as command
from metaevo.config import ConfigError
from metaevo.parts import learners
from metaevo.tasks.binding import make_learner
from purerl import envs
from purerl.envs.registry import SUITES
from tests.purerl.test_nested import Nested


def test_a_line_for_every_environment_that_needs_no_extra(capsys, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda suite: None)
    assert command.main([], description=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1 : -len(SUITES)]] == envs.names()
    assert [line.partition(":")[0] for line in lines[-len(SUITES) :]] == list(SUITES)


def test_names_suites_and_patterns():
    assert command.select(["metaevo"]) == ["GridWorld", "GridWorlds"]
    assert command.select(["cartpole-V1", "*pole-v1"]) == ["CartPole-v1"]
    assert command.select(["brax"]) == [name for name in envs.suite_names() if "brax/" in name]
    assert "navix/DoorKey-8x8" in command.select(["navix/DoorKey*"])


@pytest.mark.parametrize("name", ["nothing*", "brax/antt", "pgx/2048", "craftax"])
def test_unknown_names_are_refused_in_one_line(refused, monkeypatch, name):
    monkeypatch.setattr(command, "find_spec", lambda suite: None)
    refused(command.main, [name], description=None)


class ByParts(Nested):
    """An action has parts, too."""

    def action_space(self, params=None):
        return spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])

    def step_env(self, key, state, action, params):
        return super().step_env(key, state, action[0], params)


@pytest.mark.parametrize(("kind", "actions"), [(Nested, "2 values"), (ByParts, "Tuple")])
def test_environments_with_spaces_of_parts_are_listed(kind, actions, capsys):
    name = envs.name_of(kind)
    assert command.main([name], description=None) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split(maxsplit=2)[:2] == ["own", name]
    assert line.split(maxsplit=2)[2].split("  ")[0] == "14"
    assert actions in line


@pytest.mark.parametrize(
    ("learner", "env"), [("dqn", envs.make("Pendulum-v1")[0]), ("ppo", ByParts())]
)
def test_environments_that_a_learner_cannot_use_are_refused(learner, env):
    entry = learners.find(learner)
    settings = SimpleNamespace(
        learner=learner, train=entry.config(), hyperparams=entry.hyperparams()
    )
    with pytest.raises(ConfigError, match=rf"^task\.env: learner '{learner}' ") as caught:
        make_learner(settings, env, env.default_params)
    assert "\n" not in str(caught.value)
