"""Opponent shaping: meta-episodes against NumPy, and whole runs by the command."""

import json
import shutil

import jax
import numpy as np
import pytest

import metaevo
from metaevo.commands.evaluate import main as evaluate
from metaevo.commands.evolve import main
from metaevo.parts import players
from metaevo.runs import checkpoint
from metaevo.studies.games.shaping import Shaping
from purerl import opponents
from purerl.games import Game
from tests.metaevo.studies.games import SHAPING, merged, run, study_of
from tests.metaevo.toy import assert_same
from tests.purerl.chains import slope, total


def problem_of(**changes):
    return study_of(SHAPING, **changes).problem({})


def weights_of(seed, hidden=4):
    """A meta-policy with random numbers everywhere."""
    shapes = players.init_weights(jax.random.key(0), hidden)
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
    problem = problem_of(opponent={"learning_rate": rate})
    (own, other), game, earned = start_of(key), problem.game, []
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
    move = jax.jit(lambda weights: players.shaper(weights).step(None, 1.0, own, other, ())[0])
    np.testing.assert_allclose(move(weights), moved(weights, own, other), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_mixture_draws_an_opponent_for_each_episode():
    names, game = ["tit_for_tat", "always_defect", "win_stay_lose_shift"], study_of(SHAPING).game
    weights, keys = weights_of(0), jax.random.split(jax.random.key(1), 60)

    def fitness(problem):
        found = jax.jit(jax.vmap(problem.evaluate, (0, None, None)))(keys, weights, 0)
        return np.asarray(found.fitness)

    settings = study_of(SHAPING).settings
    each = [fitness(Shaping(settings, players.find([n], "", game))) for n in names]
    problem = problem_of(opponent={"names": names})
    mixed = fitness(problem)
    met = np.argmin(np.abs(np.stack(each) - mixed), axis=0)
    np.testing.assert_allclose(np.stack(each)[met, np.arange(60)], mixed, atol=1e-5)
    assert np.all(np.bincount(met, minlength=3) > 8)


@pytest.mark.long
def test_the_line_of_extortion_is_found():
    game = Game.of([[-1, -3], [0, -2]], None, 0.96)
    weights = players.init_weights(jax.random.key(0), 4)
    weights["out"]["bias"] = opponents.logits(opponents.zero_determinant(game, 3.0))
    found = study_of(SHAPING, game={"steps": 10}).illustrate(weights)
    assert list(found.lines) == [1, 3, 10]
    for line in found.lines.values():
        assert line.factor == pytest.approx(3.0, abs=0.02)
        assert line.miss == pytest.approx(0.0, abs=0.01)
        assert line.explained > 0.999
    assert found.probabilities.shape == (10, 2, 5)
    assert found.payoffs[-1, 0] > found.payoffs[-1, 1]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A finished run against a naive learner."""
    path = tmp_path_factory.mktemp("shaping")
    assert run(SHAPING, path) == 0
    return path / "run"


@pytest.mark.long
def test_a_run_is_judged_drawn_and_reported(directory):
    scores = metaevo.Scores.load(directory / "scores.npz")
    names = [*scores.contenders]
    assert names == ["learned", "naive", "lola", "tit_for_tat", "zero_determinant"]
    robin = json.loads((directory / "pairs.json").read_text())
    assert robin["opponents"] == ["naive", "naive, rate 0.5", "tit_for_tat", "learned"]
    own = np.array([[cell["own"][0] for cell in cells] for cells in robin["contenders"].values()])
    assert scores.iqm("tit_for_tat").value == pytest.approx(own[names.index("tit_for_tat"), 0])
    assert own[names.index("tit_for_tat"), 2] == pytest.approx(-1.0, abs=0.01)
    figures = {path.name for path in (directory / "figures").iterdir()}
    assert figures >= {"meta_episode.gif", "metrics.png", "reach.png"}


@pytest.mark.long
def test_several_evolutions_meet_the_same_opponents(directory, tmp_path):
    assert run(SHAPING, tmp_path, "--evolution-seeds", "2") == 0
    scores = metaevo.Scores.load(tmp_path / "run/scores.npz")
    assert sorted(scores.contenders[:2]) == ["learned seed 0", "learned seed 1"]
    assert scores.discoveries == ("learned",)
    # Alone, the first seed has found and scored the same.
    alone = metaevo.Scores.load(directory / "scores.npz").held_out_of("learned")
    np.testing.assert_allclose(scores.held_out_of("learned seed 0"), alone, rtol=1e-4)


@pytest.mark.long
def test_a_shaper_is_judged_with_another_opponent(directory, tmp_path, refused):
    shutil.copytree(directory, tmp_path / "run")
    argv = ["--run-dir", str(tmp_path / "run"), "--opponent.learning_rate"]
    assert evaluate([*argv, "3"], description=None) == 0
    (found,) = (tmp_path / "run/transfer").iterdir()
    before, result = (json.loads((path / "pairs.json").read_text()) for path in (directory, found))
    own, other = (each["contenders"]["learned"][0]["own"][0] for each in (before, result))
    assert own != other
    # What it earns from opponents that do not learn is the same.
    at = result["opponents"].index("tit_for_tat")
    cells = [each["contenders"]["learned"][at] for each in (before, result)]
    np.testing.assert_allclose(*[each["own"] for each in cells], rtol=1e-5)
    for wrong in (
        [*argv, "2", "--name", found.name],  # there are results of another one
        [*argv[:2], "--policy.hidden", "3"],
        [*argv[:2], "--unseen"],
    ):
        refused(evaluate, wrong, description=None)


@pytest.mark.long
def test_another_runs_shaper_is_an_opponent_and_kept(directory, tmp_path, refused):
    other = tmp_path / "other"
    shutil.copytree(directory, other)
    path, unjudged = tmp_path / "run", {"seeds": 0, "opponents": []}
    changes = {"opponent": {"names": str(other)}, "evaluation": unjudged}
    assert run(merged(SHAPING, changes), tmp_path) == 0
    theirs, _ = checkpoint.load_tree(directory / "meta_params.npz")
    (kept,) = (path / "opponents").iterdir()
    assert_same(checkpoint.load_tree(kept / "meta_params.npz")[0], theirs)
    shutil.rmtree(other)
    resume = ["--resume", "--run-dir", str(path)]
    assert main([*resume, "--generations", "6"]) == 0
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert [each["generation"] for each in records if each["kind"] == "generation"] == [*range(6)]
    refused(main, [*resume, "--game.discount", "0.9"])


def test_runs_without_a_meta_policy_are_refused_as_opponents(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(ValueError, match="holds no meta-policy"):
        study_of(SHAPING, opponent={"names": str(folder)})
    checkpoint.save_tree(folder / "meta_params.npz", weights_of(0), {"hidden": 5})
    with pytest.raises(ValueError, match="its meta-policy is damaged"):
        study_of(SHAPING, opponent={"names": str(folder)})
    checkpoint.save_tree(folder / "meta_params.npz", {"scale": np.ones(3)}, {"parts": {}})
    with pytest.raises(ValueError, match="something else was evolved"):
        study_of(SHAPING, opponent={"names": str(folder)})
