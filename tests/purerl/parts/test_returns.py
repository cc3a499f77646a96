from functools import partial
from types import SimpleNamespace

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as npst

from purerl import pqn
from purerl.parts import returns
from purerl.parts.normalization import RunningStatistics, discounted_running_returns
from purerl.types import Context, Rollout


def gae(*rollout, gamma, lam, **named):
    hyperparams = SimpleNamespace(gamma=gamma, gae_lambda=lam)
    return returns.gae(None, Context(hyperparams), Rollout(*rollout, **named))


advantages = jax.jit(gae)


def brute_force(*rollout, gamma, lam):
    """Advantages [T] by GAE as averages of n-step ones (Schulman et al. 2016, equation 16)."""
    columns = [np.asarray(each, float) for each in rollout]
    of_step = partial(summed, "q_lambda", gamma=gamma, lam=lam)
    return np.array([of_step(t, *columns)[0] for t in range(len(columns[0]))])


def brute_force_of_all(*rollout, gamma, lam):
    columns = zip(*(np.transpose(each) for each in rollout), strict=True)
    return np.stack([brute_force(*column, gamma=gamma, lam=lam) for column in columns], axis=1)


@st.composite
def rollouts(draw):
    length = draw(st.sampled_from([1, 4, 9]))
    numbers = npst.arrays(np.float32, length, elements=st.floats(-5, 5, width=32))
    flags = npst.arrays(np.bool_, length)
    reward, value, final = draw(numbers), draw(numbers), draw(numbers)
    terminated, truncated = draw(flags), draw(flags)
    # Within an episode the state that a step leads to is the one that the next begins with. The
    # state after a reset is another.
    within = ~(terminated | truncated)[:-1]
    final[:-1] = np.where(within, value[1:], final[:-1])
    return reward, value, final, terminated, truncated


@given(rollouts(), st.floats(0, 1), st.floats(0, 1))
def test_advantages_are_their_definition(rollout, gamma, lam):
    advantage, target = advantages(*rollout, gamma=gamma, lam=lam)
    expected = brute_force(*rollout, gamma=gamma, lam=lam)
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(target, expected + rollout[1], rtol=1e-4, atol=1e-4)


GAMMA, LAMBDA, STEPS = 0.9, 0.8, 3
TARGETS = pqn.LEARNER.slot("targets").functions


def summed(
    name, t, reward, value, next_value, terminated, truncated, ratio=1.0, *, gamma=GAMMA, lam=LAMBDA
):
    """The advantage and the target of step t, in float64, each as a sum of its definition."""
    length, following = len(reward), np.where(terminated, 0.0, next_value)
    last = next(e for e in range(t, length) if terminated[e] or truncated[e] or e == length - 1)
    errors, rho = reward + gamma * following - value, np.minimum(1.0, ratio)

    def of_steps(n):
        """The return of n steps (Sutton & Barto 2018, equation 7.1)."""
        end = min(t + n - 1, last)
        rewards = sum(gamma ** (k - t) * reward[k] for k in range(t, end + 1))
        return rewards + gamma ** (end - t + 1) * following[end]

    def traced(start, errors, weights):
        """The sum of later errors, each with the product of the weights before it."""
        steps = range(start, last + 1)
        return sum(np.prod(gamma * weights[start:k]) * errors[k] for k in steps)

    if name == "n_step":
        target = of_steps(STEPS)
    elif name == "gae":
        target = value[t] + traced(t, errors, np.full(length, lam))
    elif name == "q_lambda":
        weights = (1 - lam) * lam ** np.arange(last - t + 1)
        weights[-1] = lam ** (last - t)
        target = np.dot(weights, [of_steps(n + 1) for n in range(len(weights))])
    else:
        now, later = (
            value[s] + traced(s, rho * errors, lam * rho) if s <= last else following[t]
            for s in (t, min(t + 1, length))
        )
        return rho[t] * (reward[t] + gamma * later - value[t]), now
    return target - value[t], target


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_sums_of_their_definition(name):
    """Episodes end in the middle of a rollout, also by truncation; Q-values are of any size."""
    rng = np.random.default_rng(3)
    shape = 24, 3
    reward, value, next_value = rng.normal(size=(3, *shape))
    ratio = np.exp(rng.normal(size=shape))
    terminated, truncated = rng.random((2, *shape)) < 0.1
    terminated[-1], truncated[-1] = [False, True, False], [False, True, True]
    assert (truncated & ~terminated)[4:20].any()
    assert (terminated & ~truncated)[4:20].any()
    rollout = Rollout(*jnp.float32([reward, value, next_value]), terminated, truncated)
    hyperparams = SimpleNamespace(gamma=GAMMA, gae_lambda=LAMBDA, return_steps=STEPS)
    found = returns.estimates(
        TARGETS[name],
        None,
        Context(hyperparams),
        rollout._replace(ratio=jnp.float32(ratio)),
    )
    columns = reward, value, next_value, terminated, truncated, ratio
    for env in range(shape[1]):
        column = [each[:, env] for each in columns]
        expected = [summed(name, t, *column) for t in range(shape[0])]
        np.testing.assert_allclose(np.array(found)[:, :, env].T, expected, rtol=1e-4, atol=1e-5)


OTHERS = np.array([0, 1, 4, 5])
"""Steps of the first and the last of three episodes of two steps."""


@jax.jit
@jax.value_and_grad
def objective_of_the_others(numbers, flags):
    advantage, target = gae(**numbers, **flags, gamma=0.9, lam=0.8)
    return jnp.sum(jnp.sin(advantage[OTHERS]) + jnp.cos(target[OTHERS]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["reward", "value", "next_value"])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_a_bad_number_stays_in_its_episode(bad, where, end):
    """Nothing of the second episode reaches the others, nor their derivatives."""
    rng = np.random.default_rng(0)
    names = "reward", "value", "next_value"
    clean = {name: rng.normal(size=6).astype(np.float32) for name in names}
    flags = {"terminated": np.zeros(6, bool), "truncated": np.zeros(6, bool)}
    flags[end][[1, 3, 5]] = True
    dirty = {name: np.copy(x) for name, x in clean.items()}
    dirty[where][2] = bad
    pairs = (objective_of_the_others(numbers, flags) for numbers in (dirty, clean))
    for found, expected in zip(*pairs, strict=True):
        jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_running_returns_forget_a_bad_number_with_its_episode(bad):
    reward, done = jnp.array([bad, 1.0, 2.0]), jnp.array([True, False, False])

    def objective(reward):
        returns, last = discounted_running_returns(reward, done, jnp.float32(0.0), gamma=0.5)
        return jnp.sum(returns[1:]) + last

    total, slopes = jax.value_and_grad(objective)(reward)
    assert total == 1.0 + 2.5 + 2.5
    np.testing.assert_allclose(slopes, [0.0, 2.0, 2.0])


def test_running_returns_are_discounted_sums_of_their_episode():
    rng = np.random.default_rng(1)
    reward = rng.normal(size=9)
    done = np.zeros(9, bool)
    done[[2, 3, 6]] = True
    gamma, before = 0.9, 1.5
    returns, last = discounted_running_returns(
        jnp.asarray(reward, jnp.float32), jnp.asarray(done), jnp.float32(before), gamma=gamma
    )
    starts = [0, 0, 0, 3, 4, 4, 4, 7, 7]  # of the episode that each step belongs to
    for t, start in enumerate(starts):
        expected = sum(gamma ** (t - k) * reward[k] for k in range(start, t + 1))
        expected += gamma ** (t + 1) * before if start == 0 else 0.0
        assert returns[t] == pytest.approx(expected, rel=1e-5)
    assert last == returns[-1]
    _, ended = discounted_running_returns(
        jnp.ones(1), jnp.ones(1, bool), jnp.float32(before), gamma=gamma
    )
    assert ended == 0.0


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 3)])
def test_mean_and_variance_of_a_stream(shape):
    rng = np.random.default_rng(0)
    statistics = RunningStatistics.create(shape)
    seen = []
    for size in ((7, 4), (1, 4), (50, 4)):
        batch = (rng.normal(size=(*size, *shape)) * 3 + 5).astype(np.float32)
        seen.append(batch.reshape(-1, *shape))
        statistics = statistics.merge(jnp.asarray(batch))
    everything = np.concatenate(seen).astype(np.float64)
    assert statistics.count == pytest.approx(len(everything), rel=1e-6)
    np.testing.assert_allclose(statistics.mean, everything.mean(0), rtol=1e-4)
    np.testing.assert_allclose(statistics.variance, everything.var(0), rtol=1e-4)


def test_far_from_zero():
    # A sum of squares would cancel here in float32; an initial mean of 0 would be a far outlier.
    batches = np.random.default_rng(1).normal(size=(20, 64)).astype(np.float32) + 3000
    statistics = RunningStatistics.create(())
    for batch in batches:
        statistics = statistics.merge(jnp.asarray(batch))
    np.testing.assert_allclose(statistics.variance, batches.astype(float).var(), rtol=1e-3)


@pytest.mark.smoke
def test_normalize():
    statistics = RunningStatistics(jnp.array([1.0, 0.0]), jnp.array([4.0, 0.0]), jnp.float32(9))
    normal = statistics.normalize(jnp.array([5.0, 0.0]))
    np.testing.assert_allclose(normal, [2.0, 0.0])
    # a constant component does not explode when it moves, nor does an outlier
    np.testing.assert_allclose(statistics.normalize(jnp.array([-1e9, 1.0])), [-10.0, 10.0])
    untouched = RunningStatistics.create((2,)).normalize(jnp.array([0.3, -2.0]))
    np.testing.assert_allclose(untouched, [0.3, -2.0], rtol=1e-6)
