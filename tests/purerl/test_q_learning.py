from collections import Counter
from functools import cache

import jax
import numpy as np
import pytest

from purerl import envs
from purerl.parts import losses
from purerl.q_learning import Config, Hyperparams, QLearning

ROWS, COLS = 2, 3
GOAL = ROWS * COLS - 1
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
HYPERPARAMS = Hyperparams(learning_rate=0.3, gamma=0.8, epsilon_start=0.4)


def moved(cell, action):
    row, col = divmod(cell, COLS)
    row, col = row + MOVES[action][0], col + MOVES[action][1]
    return row * COLS + col if 0 <= row < ROWS and 0 <= col < COLS else cell


@cache
def one_step_learner(target="q_learning", loss=losses.squared):
    """An update is one step, in a small deterministic grid with short episodes."""
    env, env_params = envs.make(
        "GridWorld", observations="index", size=(ROWS, COLS), max_steps_in_episode=4
    )
    learner = QLearning(Config(total_timesteps=400, num_steps=1, target=target), env, loss)
    return learner, env_params, jax.jit(learner.update), jax.jit(learner.init)


def steps(target="q_learning", hyperparams=HYPERPARAMS, loss=losses.squared, count=200, seed=0):
    """Yield the state before a step, the action, where it led, sums, and the state after."""
    _, env_params, update, init = one_step_learner(target, loss)
    state = jax.device_get(init(jax.random.key(seed), hyperparams, None, env_params))
    for _ in range(count):
        after, sums, _ = update(state, hyperparams, None, env_params)
        after, sums = jax.device_get((after, sums))
        taken = np.argwhere(np.asarray(after.visits - state.visits))
        assert taken.shape == (1, 2)  # one action in one state
        (obs, action) = taken[0].tolist()
        assert obs == state.obs
        yield state, action, moved(obs, action), sums, after
        state = after


def replay(target, following_value):
    """Check 200 steps against the rule, with `following_value(q, cell, table)`."""
    seen = Counter()
    for before, action, following, sums, after in steps(target):
        terminated = following == GOAL
        length = float(before.unfinished.lengths[0]) + 1
        truncated = length == 4
        assert sums.rewards == float(terminated)
        assert sums.episodes == float(terminated or truncated)
        changed = np.asarray(after.q != before.q)
        table = int(np.argwhere(changed)[0, 0]) if changed.any() else None
        if table is None:
            continue
        old = before.q[table, before.obs, action]
        bootstrap = 0.0 if terminated else following_value(before.q, following, table)
        expected = old + 0.3 * (float(terminated) + 0.8 * bootstrap - old)
        assert after.q[table, before.obs, action] == pytest.approx(expected, rel=1e-5)
        assert changed.sum() == 1
        seen["bootstrapped at truncation"] += truncated and not terminated and bootstrap > 0
        seen["terminated"] += terminated
        seen[f"table {table}"] += 1
    return seen


FOLLOWING_VALUES = {
    "q_learning": lambda q, cell, _: q[0, cell].max(),
    "expected_sarsa": lambda q, cell, _: 0.6 * q[0, cell].max() + 0.4 * q[0, cell].mean(),
    "double": lambda q, cell, table: q[1 - table, cell, q[table, cell].argmax()],
}


@pytest.mark.parametrize(
    "target",
    [
        "q_learning",
        *(pytest.param(x, marks=pytest.mark.long) for x in ("expected_sarsa", "double")),
    ],
)
def test_squared_error_gives_the_textbooks_rule(target):
    seen = replay(target, FOLLOWING_VALUES[target])
    assert seen["bootstrapped at truncation"] > 3
    assert seen["terminated"] > 10
    assert target != "double" or min(seen["table 0"], seen["table 1"]) > 20


def tilted(meta_params, context, prediction, target, old_prediction):
    del meta_params, context
    assert old_prediction is not None
    error = prediction - target
    return 2.0 * error**2 + 0.1 * error


def test_another_loss_is_descended():
    for before, action, following, _, after in steps(loss=tilted, count=40):
        old = before.q[0, before.obs, action]
        terminated = following == GOAL
        target = 1.0 if terminated else 0.8 * before.q[0, following].max()
        expected = old - 0.3 * (4.0 * (old - target) + 0.1)
        found = float(after.q[0, before.obs, action])
        assert found == pytest.approx(float(expected), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("end", "epsilon"), [(None, 0.4), (0.1, 0.1 + 0.3 / 400)])
def test_an_agent_acts_with_the_exploration_of_its_last_step(end, epsilon):
    """The decay, over all 400 steps, is linear in the steps before an action."""
    learner, env_params, *_ = one_step_learner()
    hyperparams = HYPERPARAMS.replace(epsilon_end=end)
    state = jax.jit(learner.init)(jax.random.key(0), hyperparams, None, env_params)
    assert learner.policy(state).epsilon == np.float32(0.4)
    result = jax.jit(learner.train)(jax.random.key(0), hyperparams, None, env_params)
    policy = learner.policy(result.state)
    assert policy.epsilon == pytest.approx(epsilon, rel=1e-5)
    distribution, _ = learner.action_distribution(policy, result.state.obs)
    keys = jax.random.split(jax.random.key(1), 3000)
    sampled = np.asarray(jax.vmap(distribution.sample)(keys))
    best = np.asarray(distribution.values == distribution.values.max())
    assert best.sum() == 1
    share = best[sampled].mean()
    assert share == pytest.approx(1 - epsilon + epsilon / 4, abs=0.04)
