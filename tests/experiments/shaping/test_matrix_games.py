from pathlib import Path

import jax
import numpy as np
import pytest

import metaevo
from experiments.shaping.games import Game
from experiments.shaping.matrix_games import MatrixGame, OpponentConfig
from experiments.shaping.players import FIXED
from metaevo.commands.evaluate import main as evaluate
from metaevo.commands.evolve import main
from metaevo.config import load_yaml
from tests.experiments.shaping.test_games import climb, total

NAME = "experiments.shaping.matrix_games:MatrixGame"
FOUND = Path("experiments/shaping/found")
KEY, GAME = jax.random.key(3), Game(steps=8)
FLAGS = {
    "problem": NAME, "game.steps": 8, "hidden": 4, "strategy.population_size": 16,
    "evolution.generations": 4, "evolution.validation_seeds": 8, "evolution.num_devices": 1,
    "evaluation.seeds": 32, "opponent.unseen": "[tit_for_tat]", "opponent.unseen_rates": "[]",
}  # fmt: skip
PLAYERS = """
import jax.numpy as jnp
from experiments.shaping.players import gradient

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


def argv(path, **changes):
    flags = {**FLAGS, **{key.replace("__", "."): value for key, value in changes.items()}}
    return [*(f"--{key}={value}" for key, value in flags.items()), "--run-dir", str(path)]


def weights_of(hidden):
    leaves, structure = jax.tree.flatten(MatrixGame(hidden=hidden).init(KEY))
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.tree.unflatten(structure, drawn)


def moved(weights, own, other):
    seen = 1 / (1 + np.exp(-np.concatenate([own, other])))
    hidden = np.tanh(seen @ weights["hidden"]["kernel"] + weights["hidden"]["bias"])
    return hidden @ weights["out"]["kernel"] + weights["out"]["bias"]


def test_meta_episodes_match_numpy(tmp_path):
    """Each task is an opponent: learners, one's own players, fixed strategies, meta-policies.

    Both move from the same joint state, and then earn the value of the game.
    """
    file = tmp_path / "players.py"
    file.write_text(PLAYERS)
    names = "tit_for_tat", "naive", f"{file}:Momentum", "always_defect", str(FOUND / "chicken")
    problem = MatrixGame(GAME, OpponentConfig(names, 0.7, ("lola",), (0.5,)), hidden=4)
    rates = ["naive, rate 0.35", "Momentum, rate 0.35"]
    assert problem.unseen().tasks == [*rates, "lola"]
    assert MatrixGame(GAME, OpponentConfig(names, 0.7, (), ())).unseen() is None
    weights, theirs, play = weights_of(4), metaevo.load(names[-1]), jax.jit(problem.evaluate)
    for task, name in enumerate(["tit_for_tat", "naive", "Momentum", "always_defect", names[-1]]):
        assert problem.tasks[task] == name
        own, other = np.asarray(jax.random.normal(jax.random.split(KEY)[0], (2, 5)), np.float64)
        velocity, earned = np.zeros(5), []
        for _ in range(GAME.steps):
            velocity = 0.9 * velocity * (name == "Momentum") + climb(GAME, other, own)
            following = FIXED[name].params if name in FIXED else other + 0.7 * velocity
            if task == 4:
                following = moved(theirs, other, own)
            own, other = moved(weights, own, other), following
            earned.append([0.04 * total(GAME, own, other), 0.04 * total(GAME, other, own)])
        found = play(KEY, weights, task)
        payoffs = found.fitness, found.metrics["opponent"]
        np.testing.assert_allclose(payoffs, np.mean(earned, axis=0), atol=1e-3)


RECORDED = {
    # game: mean payoffs of both over 32 meta-episodes at commit 04e737a6, and their tolerance
    "ipd": (-0.44010154, -2.24193782, 1e-6),
    "pennies": (0.97119044, -0.97119044, 1e-3),  # chaotic, with a learning rate of 10
    "chicken": (0.99872585, -1.00111368, 1e-6),
}


@pytest.mark.parametrize("game", RECORDED)
def test_recorded_meta_policies_earn_what_is_on_record(game):
    raw = load_yaml(f"configs/shaping/{game}.yaml")
    opponent = OpponentConfig(learning_rate=raw["opponent"]["learning_rate"])
    given = {key: raw["game"].get(key) for key in ("payoffs", "opponent_payoffs")}
    weights = jax.tree.map(lambda leaf: leaf[None], metaevo.load(FOUND / game))
    keys = jax.random.split(jax.random.key(7), 32)
    found = metaevo.evaluate(MatrixGame(Game(**given), opponent), weights, keys)
    payoffs = found.scores.mean(dtype=float), found.metrics["opponent"].mean(dtype=float)
    *expected, tolerance = RECORDED[game]
    np.testing.assert_allclose(payoffs, expected, rtol=tolerance)


@pytest.mark.long
def test_a_run_is_judged_and_drawn(tmp_path, refused):
    path = tmp_path / "run"
    assert main(argv(path)) == 0
    own = metaevo.Scores.load(path / "scores.npz")
    assert own.contenders == ("learned", "naive", "lola", "tit_for_tat", "zero_determinant")
    assert own.tasks == ("naive",)
    unseen = metaevo.Scores.load(path / "unseen.npz")
    assert unseen.iqm("tit_for_tat", "tit_for_tat").value == pytest.approx(-1.0, abs=0.01)
    figures = {each.name for each in (path / "figures").iterdir()}
    assert figures >= {"meta_episode.png", "metrics.png", "unseen.png"}
    again = ["--run-dir", str(path), "--code", NAME]
    refused(evaluate, [*again, "--hidden", "3"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"opponent__names": "[niave]"}, "opponent.names: 'niave'"),
        ({"opponent__names": "[naive, naive]"}, "named twice"),
        ({"opponent__names": "['PLAYERS:Broken']"}, "must be a player"),
        ({"game__payoffs": "[[1, .inf], [1, 1]]"}, "game.payoffs"),
        ({"game__discount": 1.0}, "game.discount"),
        ({"learner": "ppo"}, "learner"),
    ],
)
def test_bad_input_is_one_line(changes, words, tmp_path, refused):
    (tmp_path / "players.py").write_text(PLAYERS)
    place = str(tmp_path / "players.py")
    changes = {key: str(value).replace("PLAYERS", place) for key, value in changes.items()}
    assert words in refused(main, argv(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()
