"""Environments from a file or a module."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from metaevo.config import ConfigError, consent
from metaevo.training.task import TaskConfig, make_environments
from purerl import envs, ppo

CORRIDOR = Path(__file__).parents[2] / "examples" / "corridor.py"
NAME = f"{CORRIDOR}:Corridor"


@pytest.mark.long
def test_one_by_path_has_traced_parameters_and_can_be_learned():
    env, params = envs.make(NAME, length=4)
    assert envs.make(NAME)[0] is env  # compiled functions are shared
    _, state = env.reset(jax.random.key(0), params)
    for step in range(3):
        _, state, reward, terminated, *_ = env.step(jax.random.key(step), state, 1, params)
    assert (float(reward), bool(terminated)) == (1.0, True)
    config = ppo.Config(total_timesteps=512, num_envs=4, num_steps=16, num_minibatches=2)
    result = jax.jit(ppo.make_train(config, env))(
        jax.random.key(0), ppo.Hyperparams(), None, params
    )
    assert jnp.isfinite(result.episodes.returns).all()


def test_one_of_a_module(tmp_path, monkeypatch):
    (tmp_path / "players_of_mine.py").write_text(CORRIDOR.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    env, _ = envs.make("players_of_mine:Corridor")
    assert env.num_actions == 2


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (f"{CORRIDOR}:Coridor", "Corridor"),
        (f"{CORRIDOR}:State", "gymnax"),
        ("nowhere.py:Corridor", "nowhere.py"),
        ("no_such_package.envs:Corridor", "no_such_package"),
    ],
)
def test_what_cannot_be_loaded_is_named(name, part):
    with pytest.raises(ConfigError, match=part):
        make_environments(TaskConfig(env=name), "ppo")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("state, reward,", "state, jnp.stack([reward] * 2),", r"reward has shape \(2,\)"),
        ("terminated, {}", "terminated.astype(float), {}", r"terminated is float32\[\]"),
    ],
)
def test_a_step_of_other_types_is_named(old, new, part, tmp_path):
    path = tmp_path / "walk.py"
    path.write_text(CORRIDOR.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=rf"walk\.py:Corridor\.step: {part}"):
        make_environments(TaskConfig(env=f"{path}:Corridor"), "ppo")


def test_code_that_only_a_run_directory_names_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(consent, "_NAMED_BY_RUNS", set())
    mark, path = tmp_path / "executed", tmp_path / "trap.py"
    path.write_text(f"open({str(mark)!r}, 'w').close()\n" + CORRIDOR.read_text())
    name = f"{path}:Corridor"
    consent.note_names({"evaluation": {"unseen": {"x": {"env": name}}}})
    with pytest.raises(ConfigError, match="metaevo envs"):
        make_environments(TaskConfig(env=name), "ppo")
    assert not mark.exists()

    consent._NAMED_BY_RUNS.clear()  # the user names it
    make_environments(TaskConfig(env=name), "ppo")
    assert mark.exists()
    consent.note_names({"task": {"env": name}})  # its run can be resumed
    make_environments(TaskConfig(env=name), "ppo")
    path.write_text(path.read_text() + "\n# changed\n")
    with pytest.raises(ConfigError, match="changed"):
        make_environments(TaskConfig(env=name), "ppo")
