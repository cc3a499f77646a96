"""The Coin Game as a study: hand-written players, the fitness of a candidate, and a whole run."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.components import discovery
from metaevo.runs import checkpoint
from metaevo.studies.games import coin_players
from metaevo.studies.games.coin_players import Cast, Memory
from purerl import ppo
from purerl.envs import coin_game
from purerl.envs.coin_game import CoinGame, View, World
from tests.metaevo.studies.games import COIN, run, study_of

STEP = 1 / 48
"""Of a meta-episode of three episodes."""


@pytest.fixture(scope="module")
def study():
    return study_of(COIN)


def weights_of(seed):
    shapes = coin_players.init_weights(jax.random.key(0), 4, "uniform")
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)


def sight(here, other, coin, owner):
    return coin_game.observe(World(jnp.array([here, other]), jnp.int32(coin), jnp.int32(owner)), 0)


def after(cell, action):
    """Where a move leads, in NumPy."""
    down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
    row, column = divmod(cell, 3)
    return (row + down) % 3 * 3 + (column + right) % 3


def apart(one, other):
    """Moves between two cells, in NumPy."""
    steps = np.abs(np.subtract(divmod(one, 3), divmod(other, 3)))
    return np.minimum(steps, 3 - steps).sum()


MEMORIES = {"greedy": (1, 0), "cooperative": (0, 0), "tit_for_tat": (1, 0), "grim": (-1, 1)}
"""Of the last coin that the other took, and its thefts: what turns a player."""


ANYONE = coin_players.player(STEP, coin_players.meta_policy, *coin_players.HAND_WRITTEN.values())
ACT = jax.jit(jax.vmap(ANYONE.act, (None, 0, None, None)))


@pytest.mark.parametrize("name", coin_players.HAND_WRITTEN)
def test_hand_written_players_take_and_avoid_coins(name):
    cast = Cast(jnp.int32(1 + list(coin_players.HAND_WRITTEN).index(name)), weights_of(0))
    keys, last, thefts = jax.random.split(jax.random.key(0), 20), *MEMORIES[name]
    angry = Memory(jnp.array([0.0, last]), jnp.array([0.0, thefts]), jnp.float32(0))
    calm = Memory(jnp.array([1.0, -1.0]), jnp.array([1.0, 0.0]), jnp.float32(0))
    for here, coin, owner in [(0, 1, 0), (4, 0, 0), (8, 2, 1), (3, 5, 1), (7, 0, 1)]:
        view = View(sight(here, 6 if 6 not in (here, coin) else 3, coin, owner),
                    jnp.zeros(2), jnp.float32(0))  # fmt: skip
        for memory, is_angry in ((calm, False), (angry, True)):
            moves = set(np.asarray(ACT(cast, keys, view, memory)[0]).tolist())
            nearer = [apart(after(here, each), coin) < apart(here, coin) for each in moves]
            wants = owner == 0 or name == "greedy" or (is_angry and name != "cooperative")
            if wants:
                assert all(nearer)
            else:
                assert all(after(here, each) != coin for each in moves)
                assert len(moves) > 1


def test_memory_matches_the_games_history():
    """By the rules of the game in NumPy, from what both took in a game at random."""

    def step(carry, key):
        world, memory, rewards, first = carry
        act_key, coin_key = jax.random.split(key)
        view = View(coin_game.observe(world, 0), rewards, first)
        memory = coin_players.remember(memory, view, STEP)
        found = coin_game.move(coin_key, world, jax.random.randint(act_key, (2,), 0, 4))
        return (found.world, memory, found.rewards, jnp.float32(0)), (memory, found.taken)

    start = (coin_game.start(jax.random.key(1)), coin_players.begin(), jnp.zeros(2), jnp.float32(1))
    keys = jax.random.split(jax.random.key(2), 300)
    _, (memory, taken) = jax.device_get(jax.jit(lambda: jax.lax.scan(step, start, keys))())
    last, thefts = np.zeros(2), np.zeros(2)
    for now in range(300):
        np.testing.assert_array_equal(memory.last[now], last)
        np.testing.assert_array_equal(memory.thefts[now], thefts)
        np.testing.assert_allclose(memory.time[now], (now + 1) * STEP, rtol=1e-4)
        own, other = np.asarray(taken[now]).T
        last = np.where(other, 1, np.where(own, -1, last))
        thefts = thefts + other
    assert thefts.min() > 5
    new = coin_players.remember(
        Memory(jnp.ones(2), jnp.ones(2), jnp.float32(0.5)),
        View(jnp.zeros(27), jnp.zeros(2), jnp.float32(1)), STEP,
    )  # fmt: skip
    np.testing.assert_array_equal(new.thefts, 0)
    np.testing.assert_array_equal(new.last, 1)


def test_the_features_of_a_move_are_distances():
    memory = Memory(jnp.array([1.0, -1.0]), jnp.array([0.0, 2.0]), jnp.float32(0.25))
    rng = np.random.default_rng(0)
    for _ in range(30):
        here, other, coin = (int(each) for each in rng.permutation(9)[:3])
        owner = int(rng.integers(2))
        found = coin_players.features(
            View(sight(here, other, coin, owner), jnp.zeros(2), jnp.float32(0)), memory
        )
        for move in range(4):
            left = apart(after(here, move), coin)
            coins = np.zeros((2, 2))
            coins[owner] = left == 0, left
            wanted = [*coins.ravel(), apart(other, coin), 1, -1, 0, 1, 0.25]
            np.testing.assert_allclose(found[move], wanted)


def test_a_meta_policy_starts_grim_or_uniform():
    """A coin to its right: its own, the other's, and the other's after a theft of the other."""
    keys = jax.random.split(jax.random.key(6), 400)
    bounds = {"grim": [(0.8, 1.0), (0.0, 0.03), (0.8, 1.0)], "uniform": [(0.15, 0.35)] * 3}
    for start, wanted in bounds.items():
        cast = Cast(jnp.int32(0), coin_players.init_weights(jax.random.key(1), 4, start))
        for (owner, thefts), (low, high) in zip([(0, 0), (1, 0), (1, 2)], wanted, strict=True):
            view = View(sight(4, 0, 5, owner), jnp.zeros(2), jnp.float32(0))
            memory = coin_players.begin()._replace(thefts=jnp.array([0.0, thefts]))
            moves, _ = ACT(cast, keys, view, memory)
            assert low <= np.mean(np.asarray(moves) == 0) <= high


@pytest.mark.long
def test_fitness_is_the_return_while_ppo_learns(study):
    """Against the sums of the environment after PPO's own `train`."""
    problem, weights, key = study.problem({}), weights_of(0), jax.random.key(3)
    found = jax.jit(problem.evaluate)(key, weights)
    player = coin_players.player(STEP, coin_players.meta_policy)
    learner = ppo.PPO(study.settings.train, CoinGame(player))
    params = study.settings.env_params(Cast(jnp.int32(0), weights))
    trained = jax.jit(learner.train)(key, study.settings.hyperparams, None, params)
    state = trained.state.envs.state
    np.testing.assert_allclose(found.fitness, state.earned[:, 0].sum() / 192, atol=1e-6)
    opponent = trained.episodes.rewards.sum() / 192
    np.testing.assert_allclose(found.metrics["opponent"], opponent, atol=1e-6)
    taken = np.asarray(state.taken.sum(axis=0))
    np.testing.assert_allclose(found.metrics["own_coins"], taken[0, 0] / taken[0].sum(), rtol=1e-5)
    rewards = taken.sum(axis=1) - 2 * taken[::-1, 1]
    np.testing.assert_allclose(state.earned.sum(axis=0), rewards)


@pytest.mark.long
def test_two_naive_learners_earn_the_same(study):
    """Nobody is favoured: over many meetings both sides earn the same."""
    settings = study.settings
    learner = settings.learner(coin_players.naive(settings.train))
    params, keys = settings.env_params(()), jax.random.split(jax.random.key(5), 200)
    found = jax.jit(jax.vmap(
        lambda key: coin_players.play(learner, settings.hyperparams, key, params, both_learn=True)
    ))(keys)  # fmt: skip
    own, other = np.asarray(found.earned).mean(axis=1).T
    error = np.std(own - other) / np.sqrt(len(keys))
    assert abs(np.mean(own - other)) < 4 * error
    assert found.finite.all()


@pytest.mark.long
def test_a_run_by_the_command(tmp_path):
    assert run(COIN, tmp_path) == 0
    directory = tmp_path / "run"
    result = json.loads((directory / "evaluation.json").read_text())
    found = result["coin_game"]
    assert found["opponents"] == ["as in evolution", "learning rate x 0.5"]
    assert list(found["contenders"]) == ["learned", "naive", *coin_players.HAND_WRITTEN]
    learned = next(each for each in result["variants"] if each["name"] == "learned")
    np.testing.assert_allclose(
        np.mean(learned["scores"]), found["contenders"]["learned"][0]["own"][0]
    )
    assert (directory / "figures/coins.gif").is_file()
    weights, about = checkpoint.load_tree(directory / "meta_params")
    assert not discovery.is_loadable(about)  # it is no meta-policy of matrix games
    assert weights["kernel"].shape == (coin_players.INPUTS, 4)
