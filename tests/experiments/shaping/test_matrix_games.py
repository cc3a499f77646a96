"""Opponent shaping: meta-episodes against NumPy, recorded discoveries, and runs by the command."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import metaevo
from experiments.shaping import opponents
from experiments.shaping.matrix_games import (
    GameConfig,
    MatrixGame,
    OpponentConfig,
    PolicyConfig,
)
from experiments.shaping.players import shaper
from metaevo.commands.evaluate import main as evaluate
from metaevo.commands.evolve import main
from tests.experiments.shaping.chains import slope, total

NAME = "experiments.shaping.matrix_games:MatrixGame"
FOUND = Path(__file__).parents[3] / "experiments" / "shaping" / "found"
SMALL = {"game": GameConfig(steps=8), "policy": PolicyConfig(hidden=4)}
FLAGS = {
    "problem": NAME, "game.steps": 8, "policy.hidden": 4, "strategy.population_size": 16,
    "evolution.generations": 4, "evolution.validation_seeds": 8, "evolution.num_devices": 1,
    "evaluation.seeds": 32, "opponent.unseen": "[tit_for_tat]", "opponent.unseen_rates": "[0.5]",
}  # fmt: skip


def argv(path, **changes):
    flags = {**FLAGS, **{key.replace("__", "."): value for key, value in changes.items()}}
    return [*(f"--{key}={value}" for key, value in flags.items()), "--run-dir", str(path)]


def weights_of(seed, hidden=4):
    """A meta-policy with random numbers everywhere."""
    shapes = MatrixGame(policy=PolicyConfig(hidden)).init(jax.random.key(0))
    leaves, structure = jax.tree.flatten(shapes)
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.tree.unflatten(structure, drawn)


def moved(weights, own, other):
    """The meta-policy in NumPy."""
    seen = 1 / (1 + np.exp(-np.concatenate([own, other])))
    hidden = np.tanh(seen @ weights["hidden"]["kernel"] + weights["hidden"]["bias"])
    return hidden @ weights["out"]["kernel"] + weights["out"]["bias"]


def start_of(key):
    return np.asarray(opponents.draw_start(jax.random.split(key)[0]), np.float64)


def test_a_meta_episode_against_a_naive_learner():
    """Both move from the same joint state, and then earn the value of the game."""
    weights, key, rate = weights_of(0), jax.random.key(3), 0.7
    problem = MatrixGame(opponent=OpponentConfig(learning_rate=rate), **SMALL)
    (own, other), game, earned = start_of(key), problem.game.game, []
    for _ in range(8):
        climb = slope(lambda policy, own=own: total(game.swapped, policy, own), other)
        own, other = moved(weights, own, other), other + rate * climb
        earned.append([0.04 * total(game, own, other), 0.04 * total(game.swapped, other, own)])
    found = jax.jit(problem.evaluate)(key, weights, 0)
    np.testing.assert_allclose(found.fitness, np.mean(earned, axis=0)[0], atol=1e-4)
    np.testing.assert_allclose(found.metrics["opponent"], np.mean(earned, axis=0)[1], atol=1e-4)


@pytest.mark.parametrize("hidden", [4, 100])
def test_moves_match_the_network(hidden):
    """Few rows are summed one by one, many are a product."""
    weights, (own, other) = weights_of(3, hidden), np.asarray(start_of(jax.random.key(4)))
    move = jax.jit(lambda weights: shaper(weights).step(None, 1.0, own, other, ())[0])
    np.testing.assert_allclose(move(weights), moved(weights, own, other), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_each_task_is_an_opponent():
    """Players that learn and players that never change share a program."""
    names = ("tit_for_tat", "naive", "always_defect")
    weights, key = weights_of(0), jax.random.key(1)

    def fitness(names, task):
        problem = MatrixGame(opponent=OpponentConfig(names), **SMALL)
        return float(jax.jit(problem.evaluate)(key, weights, task).fitness)

    together = [fitness(names, task) for task in range(3)]
    assert len(set(together)) == 3
    assert fitness(("naive",), 0) == pytest.approx(together[1], abs=1e-5)
    start = start_of(key)
    for task in (0, 2):
        policy = opponents.logits(opponents.FIXED[names[task]])
        own, other, earned = start[0], start[1], []
        for _ in range(8):
            own, other = moved(weights, own, other), policy
            game = MatrixGame().game.game
            earned.append(0.04 * total(game, own, other))
        assert together[task] == pytest.approx(np.mean(earned), abs=1e-4)


@pytest.mark.long
def test_the_recorded_meta_policy_earns_what_the_first_edition_measured():
    keys = jax.random.split(jax.random.key(7), 64)
    found = metaevo.evaluate(
        MatrixGame(), jax.tree.map(lambda leaf: leaf[None], metaevo.load(FOUND / "ipd")), keys
    )
    assert found.fitness[0] == pytest.approx(-0.434475, abs=1e-4)  # commit 32397b12
    assert found.metrics["opponent"].mean() == pytest.approx(-2.242861, abs=1e-4)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A finished run against a naive learner."""
    path = tmp_path_factory.mktemp("shaping") / "run"
    assert main(argv(path)) == 0
    return path


@pytest.mark.long
def test_a_run_is_judged_drawn_and_reported(directory):
    own = metaevo.Scores.load(directory / "scores.npz")
    assert own.contenders == ("learned", "naive", "lola", "tit_for_tat", "zero_determinant")
    assert own.tasks == ("naive",)
    unseen = metaevo.Scores.load(directory / "unseen.npz")
    assert unseen.tasks == ("naive, rate 0.5", "tit_for_tat")
    assert unseen.iqm("tit_for_tat", "tit_for_tat").value == pytest.approx(-1.0, abs=0.01)
    figures = {path.name for path in (directory / "figures").iterdir()}
    assert figures >= {"meta_episode.png", "metrics.png", "unseen.png"}


@pytest.mark.long
def test_a_shaper_is_judged_with_another_opponent(directory, tmp_path, refused):
    path = shutil.copytree(directory, tmp_path / "run")
    alone = ["--opponent.unseen=[]", "--opponent.unseen_rates=[]"]
    again = ["--run-dir", str(path), "--code", NAME, *alone, "--opponent.learning_rate"]
    assert evaluate([*again, "3"], description=None) == 0
    (found,) = (path / "transfer").iterdir()
    for wrong in (
        [*again, "2", "--name", found.name],  # there are results of another one
        [*again[:-1], "--policy.hidden", "3"],
    ):
        refused(evaluate, wrong, description=None)


@pytest.mark.long
def test_another_runs_shaper_is_an_opponent(directory, tmp_path):
    path = tmp_path / "run"
    assert main(argv(path, opponent__names=f"[{directory}]", evaluation__seeds=0)) == 0
    resume = ["--resume", "--run-dir", str(path), "--code", NAME, "--generations", "6"]
    assert main(resume) == 0
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert [each["generation"] for each in records if each["kind"] == "generation"] == [*range(6)]


PLAYER = """
import jax.numpy as jnp
from experiments.shaping.opponents import gradient

class Momentum:
    def init(self, policy):
        return jnp.zeros_like(policy)

    def step(self, game, rate, own, other, velocity):
        velocity = 0.9 * velocity + gradient(game, own, other)
        return own + rate * velocity, velocity

class Broken(Momentum):
    def step(self, game, rate, own, other, velocity):
        return own[:2], velocity
"""


@pytest.mark.long
def test_a_player_of_ones_own_is_an_opponent_and_a_contender(tmp_path):
    file = tmp_path / "players.py"
    file.write_text(PLAYER)
    problem = MatrixGame(opponent=OpponentConfig((f"{file}:Momentum",), 0.5, (), ()), **SMALL)
    assert problem.tasks == ["Momentum"]
    assert problem.unseen() is None
    assert "Momentum" in {each.name for each in problem.contenders()}
    key, weights = jax.random.key(2), weights_of(1)
    (own, other), game, velocity, earned = start_of(key), problem.game.game, np.zeros(5), []
    for _ in range(8):
        climb = slope(lambda policy, own=own: total(game.swapped, policy, own), other)
        velocity = 0.9 * velocity + climb
        own, other = moved(weights, own, other), other + 0.5 * velocity
        earned.append(0.04 * total(game, own, other))
    found = jax.jit(problem.evaluate)(key, weights, 0)
    assert found.fitness == pytest.approx(np.mean(earned), abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"opponent__names": "[niave]"}, "opponent.names: 'niave'"),
        ({"opponent__names": "[naive, naive]"}, "named twice"),
        ({"opponent__names": "[tit_for_tat]"}, "never changes"),
        ({"opponent__names": "[PLAYERS:Broken]"}, "must be a player"),
        ({"game__opponent_payoffs": "[[1, 1], [1, 1]]"}, "game.opponent_payoffs"),
        ({"game__discount": 1.0}, "game.discount"),
        ({"learner": "ppo"}, "learner"),
    ],
)
def test_bad_input_is_one_line(changes, words, tmp_path, refused):
    (tmp_path / "players.py").write_text(PLAYER)
    changes = {
        key: str(value).replace("PLAYERS", str(tmp_path / "players.py"))
        for key, value in changes.items()
    }
    assert words in refused(main, argv(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()
