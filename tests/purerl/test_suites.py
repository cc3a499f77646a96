"""Every suite against its own loop, step by step. Skipped where the suite's extra is missing."""

import re
from functools import partial
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments.environment import Environment

from purerl import envs
from purerl.envs import registry, xminigrid_suite
from purerl.envs.suite import tolerant
from purerl.parts import masks
from purerl.parts.own_task import sampler
from tests.purerl.suite_loops import LOOPS


def needs(suite):
    return pytest.mark.skipif(
        find_spec(suite) is None, reason=f"needs pip install 'metaevo[{suite}]'"
    )


@pytest.fixture(autouse=True)
def _tolerant():
    with tolerant():
        yield


def lockstep(full_name, limit, episodes):
    """Play random episodes here and in the suite's own loop, until all have ended.

    Actions are legal, except that every twentieth of Snake is any.

    Returns:
        for each, ours and the suite's: observations, rewards, whether it is done, whether by the
        limit alone; and whether the episode was still going on [limit, episodes].
    """
    suite, _, name = full_name.partition("/")
    env, params = envs.make(
        full_name,
        observations="raw",
        pool=4 if suite == "craftax" else None,
        max_steps_in_episode=limit,
    )
    own_reset, own_step = LOOPS[suite](name, limit, params)

    def one_step(carry, key):
        state, own_state, going = carry
        action_key, key = jax.random.split(key)
        action = env.action_space(params).sample(action_key)
        if (legal := masks.of_state(env, state, params)) is not None:
            is_wild = (name == "Snake") & jax.random.bernoulli(key, 0.05)
            draw = jax.random.categorical(action_key, jnp.where(legal | is_wild, 0.0, -1e9))
            action = draw.astype(jnp.int32)
        _, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        own_obs, own_state, own_reward, own_done, own_cut = own_step(
            jax.random.split(key)[0], own_state, action
        )
        done = terminated | truncated
        ours = info["final_observation"], reward, done, truncated & ~terminated
        own = own_obs, jnp.float32(own_reward), own_done, own_cut
        return (state, own_state, going & ~done), (ours, own, going)

    def episode(key):
        key, *keys = jax.random.split(key, limit + 1)
        obs, state = env.reset(key, params)
        own_obs, own_state = own_reset(key)
        _, steps = jax.lax.scan(one_step, (state, own_state, jnp.bool_(True)), jnp.stack(keys))
        return (obs, own_obs), steps

    keys = jax.random.split(jax.random.key(7), episodes)
    return jax.device_get(jax.jit(jax.vmap(episode))(keys))


@pytest.mark.parametrize(
    ("name", "limit", "episodes"),
    [
        pytest.param("brax/inverted_pendulum", 25, 1000, marks=[needs("brax"), pytest.mark.long]),
        pytest.param("brax/reacher", 10, 100, marks=[needs("brax"), pytest.mark.long]),
        pytest.param("navix/Empty-Random-5x5", 40, 1000, marks=needs("navix")),
        pytest.param(
            "navix/Dynamic-Obstacles-6x6", 20, 1000, marks=[needs("navix"), pytest.mark.long]
        ),
        pytest.param("navix/DoorKey-6x6", 60, 1000, marks=[needs("navix"), pytest.mark.long]),
        pytest.param("xminigrid/EmptyRandom-5x5", 40, 1000, marks=needs("xminigrid")),
        pytest.param("xminigrid/R1-9x9", 100, 1000, marks=[needs("xminigrid"), pytest.mark.long]),
        pytest.param(
            "craftax/Classic-Symbolic", 250, 32, marks=[needs("craftax"), pytest.mark.long]
        ),
        pytest.param("pgx/minatar-breakout", 30, 1000, marks=needs("pgx")),
        pytest.param("pgx/minatar-asterix", 60, 1000, marks=[needs("pgx"), pytest.mark.long]),
        pytest.param("pgx/minatar-freeway", 50, 1000, marks=[needs("pgx"), pytest.mark.long]),
        pytest.param("pgx/minatar-seaquest", 60, 1000, marks=[needs("pgx"), pytest.mark.long]),
        pytest.param(
            "pgx/minatar-space_invaders", 80, 1000, marks=[needs("pgx"), pytest.mark.long]
        ),
        pytest.param("pgx/2048", 130, 1000, marks=[needs("pgx"), pytest.mark.long]),
        pytest.param("jumanji/Snake", 30, 1000, marks=needs("jumanji")),
        pytest.param("jumanji/Maze", 100, 1000, marks=[needs("jumanji"), pytest.mark.long]),
        pytest.param("jumanji/Game2048", 130, 1000, marks=[needs("jumanji"), pytest.mark.long]),
        pytest.param(
            "jumanji/SlidingTilePuzzle", 40, 1000, marks=[needs("jumanji"), pytest.mark.long]
        ),
        pytest.param("jumanji/Minesweeper", 10, 1000, marks=[needs("jumanji"), pytest.mark.long]),
    ],
)
def test_rewards_and_ends_are_the_suites_own(name, limit, episodes):
    firsts, (ours, own, going) = lockstep(name, limit, episodes)
    np.testing.assert_array_equal(*firsts)
    (obs, reward, done, cut), (own_obs, own_reward, own_done, own_cut) = ours, own
    np.testing.assert_array_equal(done[going], own_done[going])
    np.testing.assert_array_equal(cut[going], own_cut[going])
    np.testing.assert_allclose(obs[going], own_obs[going], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        np.sum(reward * going, axis=1), np.sum(own_reward * going, axis=1), rtol=1e-5, atol=1e-5
    )
    assert done.any(axis=1).all()
    endless = "brax/reacher", "pgx/minatar-freeway", "jumanji/SlidingTilePuzzle"
    if name not in endless:  # which have no terminal states, or none that chance finds
        assert 0 < cut[going].sum() < episodes


@pytest.mark.parametrize("suite", [pytest.param(name, marks=needs(name)) for name in LOOPS])
def test_the_names_are_those_of_the_suite(suite):
    if suite == "brax":
        from brax import envs as robots

        own = set(robots._envs) - {"swimmer"}
    elif suite == "navix":
        import navix

        own = {name.removeprefix("Navix-").removesuffix("-v0") for name in navix.registry()}
    elif suite == "xminigrid":
        import xminigrid

        own = {
            name.removeprefix("XLand-").removeprefix("MiniGrid-")
            for name in xminigrid.registered_environments()
        }
        assert set(xminigrid_suite.BENCHMARKS) == set(xminigrid.registered_benchmarks())
        assert set(xminigrid_suite.BENCHMARKS) == set(registry.SUITES[suite].refused)
    elif suite == "pgx":
        import pgx

        own = {*pgx.available_envs(), "bridge_bidding"} - set(registry.SUITES[suite].refused)
    elif suite == "jumanji":
        import jumanji

        own = {re.sub(r"-v\d+$", "", name) for name in jumanji.registered_environments()}
        assert own >= set(registry.SUITES[suite].refused)
        own -= set(registry.SUITES[suite].refused)
    else:
        own = {"Classic-Symbolic", "Symbolic"}
    assert set(registry.SUITES[suite].names) == own


@needs("navix")
def test_a_grid_is_seen_in_planes():
    env, params = envs.make("navix/Empty-Random-5x5", pool=16)
    raw, _ = envs.make("navix/Empty-Random-5x5", pool=16, observations="raw")
    planes, state = env.reset(jax.random.key(0), params)
    symbols, _ = raw.reset(jax.random.key(0), params)
    assert planes.shape == (5, 5, 21)
    assert env.observation_space(params).shape == planes.shape
    split = np.split(np.asarray(planes), [11, 17], axis=-1)
    np.testing.assert_array_equal(np.stack([x.argmax(-1) for x in split], -1), symbols)
    assert all((x.sum(-1) == 1).all() for x in split)
    kilobytes = sum(leaf.nbytes for leaf in jax.tree.leaves(state)) / 1000
    assert kilobytes < 1  # without the picture


@needs("xminigrid")
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_task_of_xland_takes_as_many_rules_as_its_depth(depth):
    """In NumPy: what can be made of the objects in the room, with all rules and with one fewer."""
    env, _ = envs.make("xminigrid/R1-9x9", min_depth=depth, max_depth=depth, pool=None)
    draw = jax.jit(jax.vmap(env.env.draw_rules))
    rulesets = jax.device_get(draw(jax.random.split(jax.random.key(0), 50)))
    goals = set()
    for goal, rules, tiles in zip(rulesets.goal, rulesets.rules, rulesets.init_tiles, strict=True):
        present = {tuple(tile) for tile in tiles} - {(0, 0)}
        needed = {1: [goal[1:3]], 3: [goal[1:3]], 4: [goal[1:3], goal[3:5]]}[int(goal[0])]
        needed = {tuple(tile) for tile in needed}
        assert np.count_nonzero(rules[:, 0]) == depth
        for left_out in range(depth):
            assert not needed <= reached(present, np.delete(rules, left_out, axis=0))
        assert needed <= reached(present, rules)
        assert len(present) >= 3  # the first object, and two without a use
        goals.add(int(goal[0]))
    assert goals == {1, 3, 4}


def reached(present, rules):
    """All objects that rules make of those that are present."""
    while True:
        made = set()
        for rule in rules:
            if rule[0] in (1, 2) and tuple(rule[1:3]) in present:
                made.add(tuple(rule[3:5]))
            if rule[0] == 3 and {tuple(rule[1:3]), tuple(rule[3:5])} <= present:
                made.add(tuple(rule[5:7]))
        if made <= present:
            return present
        present = present | made


@needs("xminigrid")
def test_every_agent_of_xland_gets_a_task_and_starts_of_its_own():
    env, params = envs.make("xminigrid/R1-9x9", max_depth=1, pool=8)
    draw = jax.jit(jax.vmap(sampler(env), (0, None)))
    tasks = draw(jax.random.split(jax.random.key(0), 20), params)
    assert len(np.unique(tasks.ruleset.goal, axis=0)) > 15
    depths = np.count_nonzero(tasks.ruleset.rules[:, :, 0], axis=1)
    assert set(depths) == {0, 1}
    _, inner = tasks.starts
    assert inner.grid.shape == (20, 8, 9, 9, 2)
    for goal, starts in zip(tasks.ruleset.goal, inner.goal_encoding, strict=True):
        np.testing.assert_array_equal(starts, np.tile(goal, (8, 1)))
    # one task for all
    fixed, params = envs.make("xminigrid/R1-9x9", task=3, pool=8)
    assert sampler(fixed) is None
    assert not np.array_equal(
        params.ruleset.goal, envs.make("xminigrid/R1-9x9", task=4, pool=8)[1].ruleset.goal
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("xminigrid/trivial-21k", "needs a download"),
        ("brax/swimmer", "does not run"),
        ("craftax/Pixels", "pictures are left out"),
        ("pgx/chess", "it is for several players"),
        ("jumanji/Sokoban", "needs a download"),
        ("jumanji/Tetris", "its action is several numbers"),
    ],
)
def test_what_is_refused(name, reason):
    with pytest.raises(ValueError, match=f"cannot build environment '{name}': .*{reason}"):
        envs.make(name)


@needs("craftax")
@pytest.mark.long
def test_the_parameters_of_craftax_are_traced():
    """Agents in different worlds are trained side by side; starts are made with what is set."""
    env, params = envs.make("craftax/Classic-Symbolic", pool=2, cow_health=7)
    assert (params.starts[1].cows.health == 7).all()
    _, state = env.reset(jax.random.key(0), params)

    def light(day_length):
        return env.step(
            jax.random.key(1), state, 0, params.replace(day_length=day_length, starts=None)
        )[1].inner.light_level

    levels = jax.jit(jax.vmap(light))(jnp.array([10, 300]))
    assert levels[0] != levels[1]


@needs("pgx")
def test_freeway_goes_on_after_its_own_clock():
    env, params = envs.make("pgx/minatar-freeway", max_steps_in_episode=2600)

    def step(index, carry):
        state, ends = carry
        _, state, _, terminated, truncated, _ = env.step(
            jax.random.fold_in(jax.random.key(1), index), state, 0, params
        )
        return state, ends.at[index].set(terminated + 2 * truncated)

    _, state = env.reset(jax.random.key(0), params)
    carry = state, jnp.zeros(2700, jnp.int32)
    _, ends = jax.jit(lambda carry: jax.lax.fori_loop(0, 2700, step, carry))(carry)
    np.testing.assert_array_equal(np.flatnonzero(ends), [2599])
    assert ends[2599] == 2


@needs("pgx")
def test_breakout_without_sticky_actions_is_that_of_gymnax():
    """Two implementations by different people, transition by transition."""

    def play(name, **overrides):
        env, params = envs.make(name, **overrides)

        def step(state, key):
            action = jax.random.randint(key, (), 0, 3)
            obs, state, *rest = env.step(key, state, action, params)
            return state, (obs, rest[:3])

        first, state = env.reset(jax.random.key(0), params)
        _, found = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 2000))
        return first, found

    ours, theirs = play("pgx/minatar-breakout", sticky_action_prob=0), play("Breakout-MinAtar")
    _, (_, (reward, terminated, _)) = theirs
    assert reward.sum() > 10
    assert terminated.sum() > 10
    assert jax.tree.all(jax.tree.map(lambda x, y: jnp.array_equal(x, y), ours, theirs))


@needs("brax")
@pytest.mark.long
def test_a_robot_is_reset_as_gymnax_resets():
    env, params = envs.make("brax/inverted_pendulum", max_steps_in_episode=30)
    robot = env.env

    def play(step, key):
        def each(state, key):
            action = jax.random.uniform(key, (4, 1), minval=-1.0)
            keys = jax.random.split(key, 4)
            obs, state, *rest = jax.vmap(lambda *now: step(robot, *now, params))(
                keys, state, action
            )
            return state, (obs, rest)

        _, state = jax.vmap(robot.reset, (0, None))(jax.random.split(key, 4), params)
        return jax.lax.scan(each, state, jax.random.split(key, 60))

    keys = jax.random.split(jax.random.key(0), 2)  # of two agents
    ours, theirs = (
        jax.jit(jax.vmap(partial(play, step)))(keys)
        for step in (type(robot).step, Environment.step)
    )
    assert jax.tree.all(jax.tree.map(jnp.array_equal, ours, theirs))
    _, terminated, truncated, _ = ours[1][1]
    assert terminated.any()
    assert truncated.any()
    ended = terminated | truncated
    assert (ended.any(axis=(0, 2)) & ~ended.all(axis=(0, 2))).any()


@needs("jumanji")
def test_a_snake_that_cannot_move_dies():
    env, params = envs.make("jumanji/Snake")
    _, state = env.reset(jax.random.key(0), params)
    nothing = jnp.zeros(4, bool)
    play = state.inner
    stuck = play._replace(state=play.state.replace(action_mask=nothing), legal=nothing)
    state = state.replace(inner=stuck)
    assert not env.legal_actions(state, params).any()
    assert masks.of_state(env, state, params).all()
    *_, terminated, truncated, info = env.step(jax.random.key(1), state, 0, params)
    assert terminated
    assert not truncated
    assert info["action_mask"].shape == (4,)


@needs("jumanji")
def test_pools_of_jumanji():
    for name, size in [("Maze", 1024), ("SlidingTilePuzzle", 1024), ("Snake", None)]:
        env, params = envs.make(f"jumanji/{name}")
        assert env.env.pool == size
        if size:
            assert len(params.starts[0]) == size
    # the mask is the start's own
    env, params = envs.make("jumanji/Maze", pool=8)
    obs, state = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(0), 20), params)
    walls, agent = np.asarray(obs[..., 0]) > 0, np.asarray(obs[..., 1])
    legal = jax.vmap(env.legal_actions, (0, None))(state, params)
    for one_walls, one_agent, mask in zip(
        np.pad(walls, ((0, 0), (1, 1), (1, 1)), constant_values=True), agent, legal, strict=True
    ):
        row, column = np.argwhere(one_agent > 0)[0] + 1
        up, right, down, left = (
            (row - 1, column),
            (row, column + 1),
            (row + 1, column),
            (row, column - 1),
        )
        np.testing.assert_array_equal(
            mask, [not one_walls[cell] for cell in (up, right, down, left)]
        )
