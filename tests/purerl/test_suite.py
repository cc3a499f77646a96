import importlib
import sys
import tomllib
import warnings
from functools import partial
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import spaces

from purerl import envs
from purerl.envs import features, registry
from purerl.envs.suite import Suite, SuiteEnvironment, SuiteParams, own_key, tolerant
from purerl.fast.draws import unrolled
from purerl.parts.evaluation import evaluate
from tests.processes import ROOT
from tests.purerl.probes import Fixed

KEY = jax.random.key(3)


class Walk(SuiteEnvironment):
    """A number that begins anywhere in 0 .. 99 and grows by the action; terminal from 100 on."""

    suite = "toy"

    default_params = SuiteParams(max_steps_in_episode=5)

    def begin(self, key, params):
        warnings.warn("a suite that warns", stacklevel=1)
        start = jax.random.randint(key, (), 0, 100)
        return jnp.float32(start)[None], {"place": start, "key": key}

    def advance(self, key, inner, action, params):
        place = inner["place"] + action
        inner = {"place": place, "key": jax.random.split(key)[0]}
        return jnp.float32(place)[None], inner, place, place >= 100

    def action_space(self, params=None):
        return spaces.Discrete(2)


class Draw(Walk):
    def begin(self, key, params):
        start = jax.random.uniform(key)
        return start[None], start

    def advance(self, key, inner, action, params):
        return inner[None], inner, inner, False


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    kinds = {"walk": Walk, "draw": Draw}
    toy = Suite(tuple(kinds), lambda name: partial(kinds[name], name, pool=None))
    known = registry.suite_of
    monkeypatch.setattr(registry, "SUITES", (*registry.SUITES, "toy"))
    monkeypatch.setattr(registry, "suite_of", lambda name: toy if name == "toy" else known(name))


def play(env, params, steps, action):
    def step(state, key):
        obs, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        return state, (obs, reward, terminated, truncated, info["final_observation"])

    _, state = env.reset(KEY, params)
    keys = jax.random.split(jax.random.key(1), steps)
    return jax.jit(lambda state: jax.lax.scan(step, state, keys))(state)


def test_a_limit_is_a_truncation_and_the_last_observation_is_shown():
    env, params = envs.make("toy/walk", max_steps_in_episode=4)
    _, (obs, reward, terminated, truncated, final) = play(env, params, 2000, 1)
    assert terminated.dtype == truncated.dtype == bool
    assert reward.dtype == jnp.float32
    np.testing.assert_array_equal(terminated, final[:, 0] >= 100)
    np.testing.assert_array_equal(reward, final[:, 0])
    ends = np.flatnonzero(terminated | truncated)
    lengths = np.diff([-1, *ends])
    assert lengths.max() == 4
    assert np.all(truncated[ends] == (lengths == 4))
    assert terminated.sum() > 3
    stays = ~np.asarray(terminated | truncated)
    np.testing.assert_array_equal(obs[stays], final[stays])


def test_keys_of_learners_are_carried():
    """A state with a key in it: what a scan carries keeps its type, whoever split the key."""
    env, params = envs.make("toy/walk")
    key = unrolled(KEY)
    _, state = jax.jit(env.reset)(key, params)
    _, state, *_ = jax.jit(env.step)(key, state, 0, params)
    assert state.inner["key"].dtype == KEY.dtype
    assert jax.random.bits(own_key(key)) == jax.random.bits(key) == jax.random.bits(KEY)


def test_starts_of_a_pool():
    """The starts are the suite's own, one a key; each is as likely; without a pool all occur."""
    env, params = envs.make("toy/walk", pool=8, pool_seed=2)
    with tolerant():
        own = [env.env.begin(key, params) for key in jax.random.split(jax.random.key(2), 8)]
    np.testing.assert_array_equal(params.starts[0], np.stack([obs for obs, _ in own]))
    keys = jax.random.split(KEY, 4000)
    obs, state = jax.device_get(jax.jit(jax.vmap(env.reset, (0, None)))(keys, params))
    np.testing.assert_array_equal(obs[:, 0], state.inner["place"])
    expected = 500 * np.bincount(np.int32(params.starts[0][:, 0]), minlength=100)
    counts = np.bincount(np.int32(obs[:, 0]), minlength=100)
    assert not counts[expected == 0].any()
    assert np.abs(counts - expected).max() < 5 * 23  # standard deviations of a binomial count
    env, params = envs.make("toy/walk", pool=None)
    assert params.starts is None
    obs, _ = jax.jit(jax.vmap(env.reset, (0, None)))(keys, params)
    assert len(np.unique(obs)) == 100


def test_evaluation_begins_in_starts_that_are_not_in_the_pool():
    """The return of one step is its start, a number of 24 bits: the same one twice is no chance."""
    env, params = envs.make("toy/draw", pool=64, max_steps_in_episode=1)
    reset = jax.jit(jax.vmap(env.reset, (0, None)))
    trained_on = np.asarray(reset(jax.random.split(KEY, 1000), params)[0])[:, 0]
    assert len(np.unique(trained_on)) == 64
    play = jax.jit(lambda params: evaluate(Fixed(env), (), KEY, params, num_episodes=50))
    starts = np.asarray(play(params))
    assert len(np.unique(starts)) == 50
    assert not np.isin(starts, trained_on).any()
    np.testing.assert_array_equal(starts, play(params))


def test_each_channel_of_a_grid_of_symbols_is_seen_in_planes(monkeypatch):
    monkeypatch.setattr(Draw, "planes", (3, 2))
    env, params = envs.make("toy/draw", observations="raw")
    symbols = jnp.array([[[2, 0], [0, 1]]])
    seen = features.Features(env, flat=False).observe(symbols, params)
    np.testing.assert_array_equal(seen, [[[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]])
    assert seen.dtype == jnp.float32


@pytest.mark.parametrize("pool", [0, True, 2.5])
def test_a_pool_has_at_least_one_start(pool):
    with pytest.raises(ValueError, match=r"pool = .* must be at least 1, or null"):
        envs.make("toy/walk", pool=pool)


@pytest.mark.parametrize("suite", sorted(registry.SUITES))
def test_a_missing_suite_names_its_extra(monkeypatch, suite):
    for module in [name for name in sys.modules if name.partition(".")[0] == suite]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, suite, None)
    monkeypatch.setattr(metadata, "version", lambda name: None)  # installed or not
    name = registry.suite_of(suite).names[0]
    registry._make.cache_clear()
    with pytest.raises(ValueError, match=f"cannot build .*: .*pip install 'metaevo.{suite}.'$"):
        envs.make(f"{suite}/{name}")


@pytest.mark.parametrize("suite", sorted(registry.SUITES))
def test_the_extra_installs_the_version_that_is_wanted(suite):
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    version = importlib.import_module(f"purerl.envs.{suite}_suite").VERSION
    assert pyproject["project"]["optional-dependencies"][suite] == [f"{suite}=={version}"]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert f"{suite}=={version}" in pins
