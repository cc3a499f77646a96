"""Every suite against its own loop, step by step; skipped if the suite is not installed."""

from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import envs
from purerl.envs import registry
from purerl.envs.suite import tolerant
from purerl.parts.own_task import sampler

# The suites' own loops. Each takes an environment's name, the limit of time and our parameters, and
# returns `reset(key)`, which gives observation and state, and `step(key, state, action)`:
# observation, state, reward, whether the episode is over, and whether by the limit alone.


def brax_loop(name, limit, params):
    from brax import envs as robots

    env = robots.create(name, episode_length=limit, auto_reset=False, backend="spring")

    def reset(key):
        state = env.reset(key)
        return state.obs, state

    def step(key, state, action):
        state = env.step(state, action)
        cut = state.info["truncation"] > 0
        return state.obs, state, state.reward, state.done > 0, cut

    return reset, step


def navix_loop(name, limit, params):
    import navix

    env = navix.make(f"Navix-{name}-v0", max_steps=limit)

    def reset(key):
        timestep = env.reset(key)
        return timestep.observation, timestep

    def step(key, timestep, action):
        # what moves by itself moves by a key in the state; ours moves by the step's
        timestep = timestep.replace(state=timestep.state.replace(key=key))
        timestep = env.step(timestep, action)
        done = timestep.step_type > 0
        return timestep.observation, timestep, timestep.reward, done, timestep.is_truncation()

    return reset, step


def xminigrid_loop(name, limit, params):
    import xminigrid

    if params.ruleset is None:
        env, own = xminigrid.make(f"MiniGrid-{name}", max_steps=limit)
    else:
        ruleset = jax.tree.map(jnp.asarray, params.ruleset)
        env, own = xminigrid.make(f"XLand-MiniGrid-{name}", max_steps=limit, ruleset=ruleset)

    def reset(key):
        timestep = env.reset(own, key)
        return timestep.observation, timestep

    def step(key, timestep, action):
        timestep = env.step(own, timestep, action)
        cut = timestep.last() & (timestep.discount > 0)
        return timestep.observation, timestep, timestep.reward, timestep.last(), cut

    return reset, step


def craftax_loop(name, limit, params):
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name(f"Craftax-{name}-v1", auto_reset=False)
    own = env.default_params.replace(max_timesteps=limit)

    def reset(key):  # a world takes a minute to compile: those that ours begin in are the suite's
        starts = [jax.tree.map(jnp.asarray, each) for each in params.starts]
        index = jax.random.randint(key, (), 0, len(starts[0]))
        obs, state = jax.tree.map(lambda x: x[index], starts)
        return obs, state.replace(state_rng=key)

    def step(key, state, action):
        obs, state, reward, done, _ = env.step_env(key, state, action, own)
        # it says only that the episode is over: by its clock, if the player lives
        return obs, state, reward, done, done & (state.player_health > 0)

    return reset, step


LOOPS = {
    "brax": brax_loop,
    "navix": navix_loop,
    "xminigrid": xminigrid_loop,
    "craftax": craftax_loop,
}


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


LOCKSTEPS = {
    "brax/inverted_pendulum": (25, 1000),
    "brax/reacher": (10, 100),
    "navix/Empty-Random-5x5": (40, 1000),
    "navix/Dynamic-Obstacles-6x6": (20, 1000),
    "navix/DoorKey-6x6": (60, 1000),
    "xminigrid/EmptyRandom-5x5": (40, 1000),
    "xminigrid/R1-9x9": (100, 1000),
    "craftax/Classic-Symbolic": (250, 32),
}
"""Limit of an episode, and number of episodes."""


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(name.partition("/")[0])) for name in LOCKSTEPS]
)
def test_rewards_and_ends_match_the_suite(name):
    limit, episodes = LOCKSTEPS[name]
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
    if name != "brax/reacher":  # which has no terminal states
        assert 0 < cut[going].sum() < episodes


@pytest.mark.parametrize("suite", [pytest.param(name, marks=needs(name)) for name in LOOPS])
def test_the_names_match_the_suite(suite):
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
    else:
        own = {"Classic-Symbolic", "Symbolic"}
    assert set(registry.suite_of(suite).names) == own


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
def test_agents_of_xland_have_different_tasks_and_starts():
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
