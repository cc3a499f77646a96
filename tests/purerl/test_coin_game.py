"""The Coin Game against a twin in NumPy, written from the rules."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs import coin_game
from purerl.envs.coin_game import CoinGame, CoinParams, Player, World

GAMES, STEPS, EPISODE = 40, 60, 16
COMPASS = {0: (0, 1), 1: (1, 0), 2: (0, -1), 3: (-1, 0)}


class Twin:
    """One game with cells as pairs (row, column); new coins are told."""

    def __init__(self, players, coin, owner):
        self.players = [divmod(int(cell), 3) for cell in players]
        self.coin, self.owner = divmod(int(coin), 3), int(owner)

    def step(self, actions):
        for who, action in enumerate(actions):
            down, right = COMPASS[int(action)]
            row, column = self.players[who]
            self.players[who] = ((row + down) % 3, (column + right) % 3)
        rewards, taken = [0.0, 0.0], np.zeros((2, 2))
        for who in range(2):
            if self.players[who] == self.coin:
                rewards[who] += 1
                if who == self.owner:
                    taken[who, 0] += 1
                else:
                    taken[who, 1] += 1
                    rewards[self.owner] -= 2
        return rewards, taken

    def seen(self, who):
        (row, column), found = self.players[who], np.zeros((3, 3, 3))
        other = self.players[1 - who]
        found[0, (other[0] - row) % 3, (other[1] - column) % 3] = 1
        plane = 1 if self.owner == who else 2
        found[plane, (self.coin[0] - row) % 3, (self.coin[1] - column) % 3] = 1
        return found.ravel()


@pytest.fixture(scope="module")
def played():
    """Games with random actions: worlds [T + 1], actions, rewards and coins taken [T], by game."""

    def game(key):
        start_key, act_key, key = jax.random.split(key, 3)
        actions = jax.random.randint(act_key, (STEPS, 2), 0, 4)

        def step(world, inputs):
            outcome = coin_game.move(*inputs[:1], world, inputs[1])
            seen = jnp.stack([coin_game.observe(outcome.world, who) for who in range(2)])
            return outcome.world, (outcome, seen)

        world = coin_game.start(start_key)
        _, (outcomes, seen) = jax.lax.scan(step, world, (jax.random.split(key, STEPS), actions))
        return world, actions, outcomes, seen

    keys = jax.random.split(jax.random.key(0), GAMES)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(game))(keys))


def test_steps_match_the_numpy_twin(played):
    first, actions, outcomes, seen = played
    coins = 0
    for game in range(GAMES):
        twin = Twin(first.players[game], first.coin[game], first.owner[game])
        assert len({*twin.players, twin.coin}) == 3
        for step in range(STEPS):
            rewards, taken = twin.step(actions[game, step])
            world = World(*(each[game, step] for each in outcomes.world))
            assert [divmod(cell, 3) for cell in world.players] == twin.players
            np.testing.assert_array_equal(outcomes.rewards[game, step], rewards)
            np.testing.assert_array_equal(outcomes.taken[game, step], taken)
            coin, owner = divmod(int(world.coin), 3), int(world.owner)
            if taken.any():
                assert coin not in twin.players
                twin.coin, twin.owner, coins = coin, owner, coins + 1
            assert (coin, owner) == (twin.coin, twin.owner)
            for who in range(2):
                np.testing.assert_array_equal(seen[game, step, who], twin.seen(who))
    assert coins > 200
    both = outcomes.taken.any(axis=-1).all(axis=-1)
    assert both.sum() > 8  # of these, one loses 2 and wins 1
    np.testing.assert_array_equal(outcomes.rewards[both].sum(axis=-1), 0)


def test_coins_are_uniform_over_free_cells_and_colours():
    """Frequencies of 20,000 coins each, for players apart and together."""
    keys = jax.random.split(jax.random.key(1), 20_000)
    for players in ((4, 8), (2, 2)):
        # both moved to the right; the coin lay where the first one arrives
        before = World(jnp.array([cell - 1 if cell % 3 else cell + 2 for cell in players]),
                       jnp.int32(players[0]), jnp.int32(0))  # fmt: skip
        right = jnp.zeros(2, int)
        outcome = jax.jit(jax.vmap(coin_game.move, (0, None, None)))(keys, before, right)
        np.testing.assert_array_equal(outcome.world.players, np.tile(players, (20_000, 1)))
        free = [cell for cell in range(9) if cell not in players]
        counts = np.bincount(outcome.world.coin * 2 + outcome.world.owner, minlength=18)
        expected = 20_000 / len(free) / 2
        for cell, owner in itertools.product(range(9), range(2)):
            wanted = expected if cell in free else 0
            assert abs(counts[2 * cell + owner] - wanted) <= 5 * np.sqrt(wanted)


def test_starts_are_uniform_over_three_different_cells():
    worlds = jax.jit(jax.vmap(coin_game.start))(jax.random.split(jax.random.key(2), 50_000))
    cells = np.concatenate([worlds.players, worlds.coin[:, None]], axis=1)
    assert all(len(set(each)) == 3 for each in cells[:1000].tolist())
    assert np.all(np.abs(np.apply_along_axis(np.bincount, 0, cells) - 50_000 / 9) < 400)
    pairs = np.bincount(cells[:, 0] * 9 + cells[:, 2], minlength=81).reshape(9, 9)
    assert np.all(np.abs(pairs[~np.eye(9, dtype=bool)] - 50_000 / 72) < 150)
    assert abs(worlds.owner.mean() - 0.5) < 0.02


@pytest.mark.long
def test_the_other_players_view_and_memory():
    """A player that counts steps and first steps, and that sums both rewards."""

    def act(params, key, view, memory):
        del key
        memory = memory + jnp.concatenate([jnp.ones(1), view.first[None], view.rewards])
        return jnp.argmax(params + view.obs[:4]), memory

    env = CoinGame(Player(lambda params: 0 * params, act))
    params = CoinParams(jnp.arange(4.0), EPISODE)

    def step(state, keys):
        action = jax.random.randint(keys[0], (), 0, 4)
        obs, after, reward, terminated, truncated, info = env.step(keys[1], state, action, params)
        return after, (state, after, obs, reward, terminated, truncated, info)

    key = jax.random.key(3)
    _, state = env.reset(key, params)
    keys = jax.random.split(key, (5 * EPISODE, 2))
    last, found = jax.jit(lambda state: jax.lax.scan(step, state, keys))(state)
    before, after, obs, reward, terminated, truncated, info = found
    ends = np.arange(1, 5 * EPISODE + 1) % EPISODE == 0
    np.testing.assert_array_equal(truncated, ends)
    assert not terminated.any()
    np.testing.assert_allclose(last.earned[1], reward.sum())
    assert last.taken.sum() > 5
    steps, firsts, own, other = last.memory
    assert (steps, firsts) == (5 * EPISODE, 5)
    # of the last step of each episode it is never told
    earned = np.diff(np.concatenate([np.zeros((1, 2)), after.earned]), axis=0)[~ends].sum(axis=0)
    np.testing.assert_allclose([own, other], earned)
    same = np.all(info["final_observation"] == obs, axis=1)
    assert same[~ends].all()
    assert not same[ends].all()
    np.testing.assert_array_equal(before.time, np.arange(5 * EPISODE) % EPISODE)
