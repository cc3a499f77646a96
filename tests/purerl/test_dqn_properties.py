"""What users of DQN rely on: one agent or many, at once or in pieces, known values, CartPole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import acting, dqn, envs
from purerl.parts import losses
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium
from purerl.types import TrainResult
from tests.purerl import probes
from tests.purerl.test_ppo_cartpole import last_tenth
from tests.purerl.test_ppo_properties import assert_same, exactly, numbers

pytestmark = pytest.mark.long

CONFIG = dqn.Config(
    total_timesteps=4 * 32,
    num_envs=4,
    num_steps=8,
    train_interval=8,
    gradient_steps=2,
    batch_size=16,
    buffer_size=64,
    learning_starts=40,
    target_interval=24,
    double=True,
    n_step=2,
    hidden_sizes=(8,),
)
HYPERPARAMS = dqn.Hyperparams(learning_rate=3e-3, epsilon_end=0.3)
KEYS = jax.random.split(jax.random.key(0), 3)


class Small:
    """DQN on CartPole with few steps, its functions compiled once."""

    def __init__(self):
        self.env, self.env_params = envs.make("CartPole-v1", max_steps_in_episode=12)
        self.traces = []
        self.learner = dqn.DQN(CONFIG, self.env, self.value_loss)
        self.arguments = HYPERPARAMS, {"scale": 1.0}, self.env_params
        self.init, self.update = jax.jit(self.learner.init), jax.jit(self.learner.update)
        self.train = jax.jit(self.learner.train)
        self.train_all = jax.jit(jax.vmap(self.learner.train, in_axes=(0, None, None, None)))

    def value_loss(self, meta_params, *arguments):
        self.traces.append(1)  # runs when traced, not when compiled code runs
        return meta_params["scale"] * losses.squared(meta_params, *arguments)


@pytest.fixture(scope="module")
def small():
    return Small()


@pytest.mark.smoke
def test_train_is_init_and_updates(small):
    result = small.train(KEYS[0], *small.arguments)
    state, outputs = small.init(KEYS[0], *small.arguments), []
    for _ in range(4):
        state, *output = small.update(state, *small.arguments)
        outputs.append(output)
    episodes, metrics = jax.tree.map(lambda *x: jnp.stack(x), *map(tuple, outputs))
    expected = TrainResult(state, episodes, metrics)
    assert_same(result, expected, rtol=1e-4, atol=1e-5)
    assert result.state.phase == 16
    for leaf in jax.tree.leaves((result.episodes, result.metrics)):
        assert leaf.shape == (4,)
        assert leaf.dtype == jnp.float32
        assert np.isfinite(leaf).all()
    np.testing.assert_array_equal(result.episodes.steps, 32.0)
    np.testing.assert_array_equal(result.episodes.rewards, 32.0)  # CartPole pays 1 a step
    # stopped after two updates, taken to the host and continued: bit for bit the same
    halfway = small.init(KEYS[0], *small.arguments)
    for _ in range(2):
        halfway, *_ = small.update(halfway, *small.arguments)
    data = jax.random.key_data(halfway.key)
    halfway = jax.device_put(jax.device_get(halfway.replace(key=None)))
    halfway = halfway.replace(key=jax.random.wrap_key_data(data))
    for _ in range(2):
        halfway, *_ = small.update(halfway, *small.arguments)
    assert_same(halfway, state)


def test_agents_in_a_batch_are_agents_alone(small):
    together = small.train_all(KEYS, *small.arguments)
    for index, key in enumerate(KEYS):
        alone = small.train(key, *small.arguments)
        assert_same(jax.tree.map(lambda x, i=index: x[i], together), alone, rtol=2e-3, atol=2e-4)
    # A batch of states carries a counter for every agent, see `branches`: agents at different
    # points of their training learn when it is their turn.
    update_all = jax.jit(jax.vmap(small.learner.update, in_axes=(0, None, None, None)))
    first = small.init(KEYS[0], *small.arguments)
    later = small.update(first, *small.arguments)[0]
    mixed = jax.tree.map(lambda a, b: jnp.stack([a, b]), first, later)
    mixed, *_ = update_all(mixed, *small.arguments)
    for index, state in enumerate((first, later)):
        alone = small.update(state, *small.arguments)[0]
        assert_same(jax.tree.map(lambda x, i=index: x[i], mixed), alone, rtol=2e-3, atol=2e-4)


def test_seeds_are_independent(small):
    before = small.train_all(KEYS, *small.arguments)
    after = small.train_all(KEYS.at[1].set(jax.random.key(99)), *small.arguments)
    for a, b in zip(numbers(before), numbers(after), strict=True):
        exactly(a[[0, 2]], b[[0, 2]])
    action = np.asarray(before.state.ring.action)
    assert not np.array_equal(action[0], action[1])  # they explore on their own
    assert not np.array_equal(action[0].reshape(-1, 4)[:, 0], action[0].reshape(-1, 4)[:, 1])
    for leaf in jax.tree.leaves(before.state.params):
        assert not np.array_equal(leaf[0], leaf[2])


def test_only_another_config_recompiles(small):
    hyperparams = HYPERPARAMS.replace(annealing_steps=1e3, epsilon_decay_steps=1e3)
    results = [small.train(KEYS[0], hyperparams, {"scale": 1.0}, small.env_params)]
    count = len(small.traces)
    assert count > 0
    changed = jax.tree.map(lambda x: 0.5 * x, hyperparams)  # every field
    _, other_params = envs.make("CartPole-v1", gravity=5.0, max_steps_in_episode=7)
    results += [
        small.train(KEYS[0], changed, {"scale": 1.0}, small.env_params),
        small.train(KEYS[0], hyperparams, {"scale": 3.0}, small.env_params),
        small.train(KEYS[0], hyperparams, {"scale": 1.0}, other_params),
    ]
    assert len(small.traces) == count
    weights = [r.state.params["params"]["action_head"]["kernel"] for r in results]
    assert len({np.asarray(w).tobytes() for w in weights}) == 4  # but each of them counts


def test_equal_learners_are_one_to_the_compiler(small):
    assert dqn.DQN(CONFIG, small.env) == dqn.DQN(CONFIG, small.env)
    assert hash(dqn.DQN(CONFIG, small.env)) == hash(dqn.DQN(CONFIG, small.env))
    assert dqn.DQN(CONFIG, small.env, losses.huber) != dqn.DQN(CONFIG, small.env)


def test_images_are_kept_in_bytes():
    env, env_params = envs.make("Breakout-MinAtar")
    config = dqn.Config(**{**vars(CONFIG), "store_observations": "uint8"})
    learner = dqn.DQN(config, env)
    with jax.numpy_rank_promotion("allow"):  # gymnax's environments do that
        result = jax.jit(learner.train)(KEYS[0], HYPERPARAMS, None, env_params)
    ring = result.state.ring
    assert ring.obs.dtype == jnp.uint8
    assert ring.obs.shape == (64, 10, 10, 4)
    assert set(np.unique(ring.obs)) == {0, 1}
    for leaf in jax.tree.leaves(result.state.params):
        assert np.isfinite(leaf).all()


GAMMA = 0.8


class Known(probes.Probe):
    """Two steps; action 1 pays 1 in the first and 2 in the second, action 0 nothing."""

    length = 2

    def show(self, state):
        return state.time.astype(jnp.float32)[None]

    def pay(self, state, action, params):
        return action * (1.0 + state.time)


KNOWN = Known(), [0.0, 1.0], [[2 * GAMMA, 1 + 2 * GAMMA], [0.0, 2.0]]
# Cut by a time limit, and bootstrapped there.
ENDLESS = probes.EndlessReward(), [0.0], [[1 / (1 - GAMMA)] * 2]
EVERYTHING = {
    "double": True, "dueling": True, "replay": "prioritized", "target_update": "polyak"
}  # fmt: skip


@pytest.mark.parametrize(
    ("env", "obs", "values", "changes"),
    [
        pytest.param(*KNOWN, {}, id="plain"),
        pytest.param(*ENDLESS, EVERYTHING, id="everything"),
        pytest.param(*KNOWN, EVERYTHING, id="everything, two steps", marks=pytest.mark.slow),
        pytest.param(*ENDLESS, {}, id="plain, endless", marks=pytest.mark.slow),
    ],
)
def test_known_values(env, obs, values, changes):
    config = dqn.Config(
        total_timesteps=16_000, num_envs=8, num_steps=50, train_interval=8, batch_size=32,
        buffer_size=800, learning_starts=80, target_interval=160, hidden_sizes=(16,), **changes,
    )  # fmt: skip
    learner = dqn.DQN(config, env)
    hyperparams = dqn.Hyperparams(learning_rate=1e-2, final_learning_rate=0.0, gamma=GAMMA,
                                  epsilon_end=1.0, tau=0.05)  # fmt: skip
    state = jax.jit(learner.train)(KEYS[0], hyperparams, None, env.default_params).state
    policy, inputs = learner.policy(state), jnp.array(obs)[:, None]
    q = learner.values(policy.params, inputs).values
    np.testing.assert_allclose(q, values, atol=0.25)
    if isinstance(env, Known):
        assert acting.act(learner, policy, None, KEYS[0], inputs[0], greedy=True)[0] == 1


@pytest.mark.slow
def test_solves_cartpole():
    """The settings of configs/train/dqn_cartpole.yaml, mean of 4 seeds; and in Gymnasium.

    These agents ended at 500, 481, 490 and 500, and rounding differs between machines.

    pytest -m slow tests/purerl/test_dqn_properties.py
    """
    from metaevo.config import from_dict, load_yaml
    from metaevo.training.settings import training_class

    raw = load_yaml("configs/train/dqn_cartpole.yaml")
    settings = from_dict(training_class(raw), raw)
    env, env_params = envs.make("CartPole-v1")
    learner = dqn.DQN(settings.train, env)
    train = jax.jit(jax.vmap(learner.train, in_axes=(0, None, None, None)))
    result = train(jax.random.split(jax.random.key(0), 4), settings.hyperparams, None, env_params)
    returns = last_tenth(result.episodes)
    print("mean return over the last tenth:", np.round(returns, 1))
    assert np.mean(returns) >= 475, returns
    policy = jax.tree.map(lambda leaf: leaf[0], learner.policy(result.state))
    there = evaluate_in_gymnasium(learner, policy, "CartPole-v1", num_episodes=5)
    assert there.mean() >= 450, there
