"""Custom objects named in settings: what cannot be loaded, and whose code is executed."""

from pathlib import Path

import jax.numpy as jnp
import pytest

from metaevo.components import filling, learners, players
from metaevo.config import ConfigError, consent
from metaevo.evolution import strategies
from metaevo.evolution.strategy import StrategyConfig
from metaevo.studies import registry
from metaevo.training.task import TaskConfig, make_environment
from purerl.games import Game

EXAMPLES = Path(__file__).parents[3] / "examples"
GAME = Game.of([[-1, -3], [0, -2]], None, 0.96)
PLAYER = """
class Still:
    init = staticmethod(lambda policy: ())
    step = staticmethod(lambda game, rate, own, other, state: (own, state))
"""


def find_strategy(name):
    strategies.checked(StrategyConfig(algorithm=name, population_size=4), jnp.zeros(3))


KINDS = {
    "environment": ("corridor.py", "Corridor", lambda n: make_environment(TaskConfig(n), "ppo")),
    "learner": ("sac.py", "sac", learners.find),
    "strategy": ("random_search.py", "RandomSearch", find_strategy),
    "study": ("my_study.py", "Throwing", lambda name: registry.find({"study": name})),
    "player": (None, "Still", lambda name: players.find([name], "opponent.names", GAME)),
}


@pytest.fixture(params=KINDS)
def custom(request, tmp_path):
    """The path of a source file, the name of an object in it, and a function that finds it."""
    example, name, find = KINDS[request.param]
    source = (EXAMPLES / example).read_text() if example else PLAYER
    path, mark = tmp_path / "custom.py", tmp_path / "executed"
    path.write_text(f"{source}\n\nopen({str(mark)!r}, 'w').close()\n")
    return path, name, find


def test_names_that_cannot_be_loaded(custom):
    path, name, find = custom
    for wrong in (f"{path}:{name[:-1]}", f"nowhere.py:{name}", f"no_such_package.a:{name}"):
        with pytest.raises(ConfigError) as error:
            find(wrong)
        assert "\n" not in str(error.value)


def test_code_that_only_a_run_directory_names_is_not_executed(custom, tmp_path, monkeypatch):
    path, name, find = custom
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(consent, "_NAMED_BY_RUNS", set())
    consent.note_names({"evaluation": {"unseen": {"x": {"env": f"{path}:{name}"}}}})
    with pytest.raises(ConfigError, match="only the run directory names this file"):
        find(f"{path}:{name}")
    assert not (tmp_path / "executed").exists()
    consent.trust_names()
    find(f"{path}:{name}")
    assert (tmp_path / "executed").exists()


def test_code_that_the_user_has_executed_is_trusted_until_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(consent, "_NAMED_BY_RUNS", set())
    path = tmp_path / "walk.py"
    path.write_text((EXAMPLES / "corridor.py").read_text())
    name = f"{path}:Corridor"
    make_environment(TaskConfig(name), "ppo")
    consent.note_names({"task": {"env": name}})  # its run can be resumed
    make_environment(TaskConfig(name), "ppo")
    path.write_text(path.read_text() + "\n# changed\n")
    with pytest.raises(ConfigError, match="changed"):
        make_environment(TaskConfig(name), "ppo")


def test_a_component_file_that_only_a_run_directory_names_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(consent, "_NAMED_BY_RUNS", set())
    file = tmp_path / "mine.py"
    file.write_text((EXAMPLES / "scheduled_adam.py").read_text())
    consent.note_names({"make_optimizer": str(file)})
    with pytest.raises(ConfigError, match="only the run directory names this file"):
        filling.fill("make_optimizer", str(file), "ppo")
    consent.trust_names()
    filling.fill("make_optimizer", str(file), "ppo")
