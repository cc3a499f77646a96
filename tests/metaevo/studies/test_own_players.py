"""Players of the user's own: the example of the documentation, and refused ones."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from metaevo.commands.evaluate import main as evaluate
from metaevo.commands.evolve import main
from metaevo.config import ConfigError
from metaevo.parts import players
from purerl import opponents
from purerl.games import Game
from tests.metaevo.studies.games import SHAPING, merged
from tests.purerl.chains import slope, total

PAGE = Path(__file__).parents[3] / "docs/how-to/shaping.md"
GAME = Game.of([[-1, -3], [0, -2]], None, 0.96)
OWN = "my_players.py:Momentum"
SMALL = merged(
    SHAPING,
    {
        "opponent": {"names": OWN},
        "strategy": {"population_size": 4},
        "evolution": {"generations": 2, "validation_every": 1},
        "evaluation": {"seeds": 4, "tuning_seeds": 2, "opponents": []},
    },
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the player that the documentation shows."""
    (source,) = re.findall(r'```python\n("""Opponents of my own.*?)```', PAGE.read_text(), re.S)
    (tmp_path / "my_players.py").write_text(source)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(SMALL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("purerl.custom._LOADED", set())
    return tmp_path


def find(name):
    (found,) = players.find([name], "opponent.names", GAME)
    return found


@pytest.mark.long
def test_the_documented_player_climbs_with_momentum(folder):
    """Against NumPy, over several moves, in a mixture with a player that has no state."""
    momentum = find(OWN).player
    mixture = opponents.one_of([opponents.naive, momentum], 1)
    start = np.asarray(opponents.draw_start(jax.random.key(0)), np.float64)
    own, other, velocity, earned = *start, 0.0, []
    for _ in range(5):
        climb = slope(lambda policy, own=own: total(GAME.swapped, policy, own), other)
        velocity = 0.9 * velocity + climb
        other = other + 0.1 * velocity
        earned.append([0.04 * total(GAME, own, other), 0.04 * total(GAME.swapped, other, own)])
    still = opponents.constant(start[0])
    for player in (momentum, mixture):
        found = opponents.play(GAME, still, player, start, rates=(1.0, 0.1), steps=5)
        np.testing.assert_allclose(np.stack([found.own, found.other], 1), earned, atol=1e-4)


def test_players_are_objects_or_classes_of_files_or_modules(folder, monkeypatch):
    text = (folder / "my_players.py").read_text()
    (folder / "own_players_of_a_test.py").write_text(text + "\n\nready = Momentum()\n")
    monkeypatch.syspath_prepend(folder)
    policy = jnp.arange(5.0)
    for name in (OWN, "own_players_of_a_test:Momentum", "own_players_of_a_test:ready"):
        found = find(name)
        assert found.learns
        assert found.source
        np.testing.assert_array_equal(found.player.init(policy), np.zeros(5))


REFUSED = {
    "no player": ("my_players.py:jnp", "must be a player with `init"),
    "a state that changes its shape": ("bad.py:Grows", "must be a player with `init"),
    "a policy of another shape": ("bad.py:Short", "must be a player with `init"),
    "a name that is taken": ("bad.py:naive", "naive is another player"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_objects_are_refused_as_players(case, folder):
    (folder / "bad.py").write_text(
        "import jax.numpy as jnp\n"
        "from purerl.opponents import Player, naive\n"
        "Grows = Player(lambda p: p, lambda g, r, own, o, s: (own, jnp.append(s, 0.0)))\n"
        "Short = Player(lambda p: (), lambda g, r, own, o, s: (own[:4], s))\n"
    )
    name, message = REFUSED[case]
    with pytest.raises(ConfigError, match=rf"^opponent\.names: .*{re.escape(message)}") as caught:
        find(name)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_a_run_executes_its_player_only_when_named(folder, refused, monkeypatch):
    assert main(["--config", "config.yaml", "--run-dir", "run"]) == 0
    robin = json.loads(Path("run/pairs.json").read_text())
    assert robin["opponents"] == ["Momentum", "Momentum, rate 0.5", "learned"]
    assert list(robin["contenders"])[:4] == ["learned", "naive", "lola", "Momentum"]
    source = Path("my_players.py").read_bytes()
    assert Path("run/code/my_players.py").read_bytes() == source

    resume = ["--resume", "--run-dir", "run", "--evaluation.seeds", "0", "--generations"]

    def line_of(command, *argv):
        monkeypatch.setattr("purerl.custom._LOADED", set())
        return refused(command, [*argv], description=None)

    assert f"add --code {OWN}" in line_of(main, *resume, "3")
    argv = ["--run-dir", "run", "--opponent.learning_rate", "2", "--evaluation.seeds", "4"]
    assert f"add --code {OWN}" in line_of(evaluate, *argv)
    assert main([*resume, "3", "--code", OWN]) == 0
    Path("my_players.py").write_bytes(source.replace(b"0.9", b"0.8"))
    for command in ([*resume, "4"], argv):
        line = line_of(main if command is not argv else evaluate, *command, "--opponent.names", OWN)
        assert f"{OWN} changed since the run began" in line
