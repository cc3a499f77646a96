"""The suites' own loops, with their own resets, steps, ends and limits of time.

Each takes an environment's name, the limit of time and our parameters, and returns `reset(key)`,
which gives observation and state, and `step(key, state, action)`: observation, state, reward,
whether the episode is over, and whether by the limit alone.
"""

import jax
import jax.numpy as jnp


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
