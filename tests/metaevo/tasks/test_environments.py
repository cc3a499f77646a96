from pathlib import Path

import jax
import pytest

from metaevo.config import ConfigError
from metaevo.tasks.binding import TaskConfig, make_environment

CORRIDOR = Path(__file__).parents[3] / "examples" / "corridor.py"
NAME = f"{CORRIDOR}:Corridor"


def test_one_by_path_has_traced_parameters():
    _, env, params = make_environment(TaskConfig(NAME, {"length": 4}), "ppo")
    assert make_environment(TaskConfig(NAME), "ppo")[1] is env  # compiled functions are shared
    _, state = env.reset(jax.random.key(0), params)
    for step in range(3):
        _, state, reward, terminated, *_ = env.step(jax.random.key(step), state, 1, params)
    assert (float(reward), bool(terminated)) == (1.0, True)


def test_one_of_a_module_or_the_only_one_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "players_of_mine.py").write_text(CORRIDOR.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("players_of_mine:Corridor", str(CORRIDOR)):
        assert make_environment(TaskConfig(name), "ppo")[1].num_actions == 2


def test_other_objects_are_refused_as_environments():
    with pytest.raises(ConfigError, match="gymnax"):
        make_environment(TaskConfig(env=f"{CORRIDOR}:State"), "ppo")


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
        make_environment(TaskConfig(env=f"{path}:Corridor"), "ppo")
