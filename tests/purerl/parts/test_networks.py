import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnax.environments import spaces

from purerl import dqn, envs, ppo, pqn, q_learning
from purerl.parts import exploration, networks, policies, q_networks
from purerl.parts.policies import Categorical
from purerl.parts.q_networks import ActionValues, EpsilonGreedy
from tests.purerl.probes import TargetAction


def build(name="CartPole-v1", *, observations="auto", hidden_sizes=(8,), shared=False):
    env, env_params = envs.make(name, observations=observations)
    config = ppo.Config(hidden_sizes=hidden_sizes, shared_network=shared)
    network = networks.actor_critic(env, config)
    return network, env.observation_space(env_params).shape


@pytest.mark.parametrize(
    ("name", "observations", "kernels"),
    [
        ("CartPole-v1", "auto", {(4, 8), (8, 2), (8, 1)}),
        ("Pendulum-v1", "auto", {(3, 8), (8, 1)}),
        ("Breakout-MinAtar", "auto", {(3, 3, 4, 16), (8 * 8 * 16, 8), (8, 3), (8, 1)}),
        ("Catch-bsuite", "raw", {(50, 8), (8, 3), (8, 1)}),
    ],
)
def test_the_network_fits_the_observation(name, observations, kernels):
    network, shape = build(name, observations=observations)
    params = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros(shape))
    assert {leaf.shape for leaf in jax.tree.leaves(params) if leaf.ndim > 1} == kernels
    policy, value, _ = jax.eval_shape(network.apply, params, jnp.zeros((5, 2, *shape)))
    assert value.shape == (5, 2)
    assert policy[0].shape[:2] == (5, 2)


def test_scales_of_a_new_network():
    network, shape = build(hidden_sizes=(64, 64))
    params = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))["params"]
    gains = {"actor_torso": 2**0.5, "critic_torso": 2**0.5, "policy_head": 0.01, "value_head": 1.0}
    for module, gain in gains.items():
        for leaf in jax.tree.leaves(params[module]):
            if leaf.ndim == 2:
                singular_values = np.linalg.svd(leaf, compute_uv=False)
                np.testing.assert_allclose(singular_values, gain, rtol=1e-5)
            else:
                assert not leaf.any()


def test_scales_of_a_new_q_network():
    """LeCun et al. 1998, section 4.6: variance 1 / inputs, independent numbers, biases zero."""
    env, env_params = envs.make("Breakout-MinAtar", observations="flat")
    config = dqn.Config(hidden_sizes=(256, 256))
    network = q_networks.q_network(env, config, "DQN", dueling=True)
    init = jax.jit(network.init)
    keys = jax.random.split(jax.random.key(0), 8)
    obs = jnp.zeros(env.observation_space(env_params).shape)
    params = jax.vmap(init, (0, None))(keys, obs)["params"]
    for leaf in jax.tree.leaves(params):
        if leaf.ndim == 2:
            assert not leaf.any()
            continue
        kernels = np.asarray(leaf, np.float64).reshape(8, -1, leaf.shape[-1])
        inputs, kernels = kernels.shape[1], kernels * np.sqrt(kernels.shape[1])
        assert abs(np.mean(kernels)) < 5 / np.sqrt(kernels.size)
        # the variance of a squared number of a normal distribution cut at two sigma is 1.06
        assert abs(np.mean(np.square(kernels)) - 1.0) < 5 * np.sqrt(1.1 / kernels.size), inputs
    square = np.asarray(params["torso"]["Dense_1"]["kernel"][0])
    assert np.linalg.svd(square, compute_uv=False).min() < 0.1  # orthogonal: all are the same


def test_gaussian():
    mean = jnp.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
    log_std = jnp.array([-0.5, 0.7])
    policy = policies.Gaussian(mean, log_std)
    reference = scipy.stats.norm(np.asarray(mean, np.float64), np.exp(log_std))
    action = jax.random.normal(jax.random.key(0), (3, 2)) * 2
    np.testing.assert_allclose(policy.log_prob(action), reference.logpdf(action).sum(-1), rtol=1e-4)
    np.testing.assert_allclose(policy.entropy(), reference.entropy().sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(policy.mode(), mean)
    sample = np.asarray(jax.vmap(policy.sample)(jax.random.split(jax.random.key(1), 4000)))
    std = np.broadcast_to(np.exp(log_std), (3, 2))
    assert (np.abs(sample.mean(0) - mean) < 5 * std / np.sqrt(4000)).all()
    np.testing.assert_allclose(sample.std(0), std, rtol=0.06)


def test_squashed_gaussian():
    """Its entropy is the integral of -p log p over the actions, its ratios those of the actions."""
    mean = jnp.array([[0.0, 1.0], [0.5, -2.0]])
    log_std = jnp.array([[-1.5, 0.0], [0.3, -0.5]])
    policy = policies.SquashedGaussian(mean, log_std)
    u = np.linspace(-14, 14, 200_001)[:, None, None]
    normal = scipy.stats.norm(np.asarray(mean, np.float64), np.exp(np.float64(log_std)))
    log_density = normal.logpdf(u) - np.log1p(-np.square(np.tanh(np.clip(u, -18, 18))))
    entropy = -np.trapezoid(normal.pdf(u) * log_density, u, axis=0).sum(-1)
    np.testing.assert_allclose(policy.entropy(), entropy, atol=0.02)
    np.testing.assert_array_equal(policy.mode(), mean)


def test_actions_come_within_their_bounds():
    space = TargetAction().action_space(None)
    low, high = np.asarray(space.low), np.asarray(space.high)
    numbers = jnp.array([[-50.0], [0.0], [0.7], [50.0]])
    squashed = policies.SquashedGaussian(jnp.zeros((4, 1)), jnp.zeros(1)).bounded(numbers, space)
    expected = low + (high - low) / (1 + np.exp(-2 * np.asarray(numbers, np.float64)))
    np.testing.assert_allclose(squashed, expected, rtol=1e-5, atol=1e-6)


SAMPLES = np.float32([-3, -1, -0.5, 0, 0.3, 1, 2])
LARGEST = np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("low", "high", "actions"),
    [
        (0.0, 5.0, [0, 0, 1.25, 2.5, 3.25, 5, 5]),
        (-3.0, -1.0, [-3, -3, -2.5, -2, -1.7, -1, -1]),
        (-0.1, 0.1, [-0.1, -0.1, -0.05, 0, 0.03, 0.1, 0.1]),
        # without two bounds there is no centre
        (-np.inf, np.inf, SAMPLES),
        (0.0, np.inf, np.maximum(SAMPLES, 0)),
        (-np.inf, 0.5, np.minimum(SAMPLES, 0.5)),
        (-LARGEST, LARGEST, SAMPLES),
    ],
)
def test_a_gaussian_is_in_units_of_the_box(low, high, actions):
    numbers = jnp.tile(SAMPLES[:, None], (1, 2))
    policy = policies.Gaussian(jnp.zeros_like(numbers), jnp.zeros(2))
    bounds = jnp.array([[low, -1.0], [high, 1.0]], jnp.float32)
    found = jax.jit(lambda bounds: policy.bounded(numbers, spaces.Box(*bounds, (2,))))(bounds)
    np.testing.assert_allclose(found[:, 0], actions, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found[:, 1], SAMPLES.clip(-1, 1))


TIED = jnp.array([1.0, 3.0, -2.0, 3.0, 3.0])
KEYS = jax.random.split(jax.random.key(0), 3000)


def epsilon_greedy(values):
    return EpsilonGreedy(ActionValues(values), jnp.float32(1.0))


@pytest.mark.parametrize(
    ("policy", "best"),
    [
        (Categorical(TIED), [1, 3, 4]),
        (epsilon_greedy(TIED), [1, 3, 4]),
        (Categorical(jnp.full(5, jnp.nan)), [0, 1, 2, 3, 4]),
    ],
)
def test_the_key_breaks_ties(policy, best):
    actions = np.asarray(jax.jit(jax.vmap(policy.mode))(KEYS))
    frequency = np.bincount(actions, minlength=5) / len(KEYS)
    expected = np.isin(np.arange(5), best) / len(best)
    assert np.abs(frequency - expected).max() < 5 * 0.5 / np.sqrt(len(KEYS))
    assert frequency[expected == 0].sum() == 0


@pytest.mark.parametrize("make", [Categorical, epsilon_greedy])
def test_without_ties_the_key_does_not_matter(make):
    values = jax.random.normal(jax.random.key(1), (7, 4))
    for key in KEYS[:3]:
        np.testing.assert_array_equal(make(values).mode(key), np.argmax(values, axis=1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_value_of_an_action_is_independent_of_other_actions(bad):
    values = ActionValues(jnp.array([[1.0, bad, 2.0], [bad, 3.0, 4.0]]))
    action = jnp.array([2, 1])
    np.testing.assert_array_equal(values.of(action), [2.0, 3.0])
    slopes = jax.grad(lambda x: values._replace(values=x).of(action).sum())(values.values)
    np.testing.assert_array_equal(slopes, [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


FRAMES = jnp.array([0.0, 100.0, 200.0, 400.0, 1000.0])


def test_epsilon_falls_on_a_line():
    falling = pqn.Hyperparams(epsilon_end=0.2)
    shorter = falling.replace(epsilon_decay_steps=100.0)
    constant = pqn.Hyperparams(epsilon_start=0.3, epsilon_end=None)
    for hyperparams, expected in (
        (falling, [1.0, 0.8, 0.6, 0.2, 0.2]),
        (shorter, [1.0, 0.2, 0.2, 0.2, 0.2]),
        (constant, [0.3] * 5),
    ):
        epsilon = exploration.epsilon(hyperparams, FRAMES, 400.0)
        np.testing.assert_allclose(epsilon, expected, rtol=1e-6)


@pytest.mark.parametrize("learner", [dqn, pqn, q_learning])
@pytest.mark.parametrize("end", [0.1, None])
def test_random_play_is_random(learner, end):
    settings = learner.Hyperparams(epsilon_start=0.5, epsilon_end=end)
    random = settings.random_play()
    assert jax.tree.structure(random) == jax.tree.structure(settings)
    np.testing.assert_array_equal(exploration.epsilon(random, FRAMES, 400.0), 1.0)
