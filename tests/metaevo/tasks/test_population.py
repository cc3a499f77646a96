import jax
import numpy as np
import pytest

import metaevo
from metaevo.tasks.agents import Agents, Row
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from metaevo.tasks.task import Bound
from purerl import envs, ppo, q_learning
from purerl.parts import losses
from purerl.types import EpisodeSums
from tests.metaevo.toy import assert_same

SEEDS = 3
FITNESS = FitnessConfig(mean_return=0.0, reward_per_step=1.0)
RATES = [0.05, 0.2, 0.7, 0.1, 0.5]


def diverging(meta_params, context, prediction, target, old_prediction):
    """Squared error whose gradient is infinite for large learning rates."""
    loss = losses.squared(meta_params, context, prediction, target, old_prediction)
    return loss * jax.numpy.where(context.hyperparams.learning_rate > 1.5, np.inf, 1.0)


def q_task(updates=60, value_loss=losses.squared):
    env, env_params = envs.make("GridWorld", size=4, slip_probability=0.2, observations="index")
    config = q_learning.Config(total_timesteps=10 * updates, num_steps=10)
    learner = q_learning.QLearning(config, env, value_loss)
    return Bound("GridWorld", learner, env_params, q_learning.Hyperparams())


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(3), SEEDS)


@pytest.fixture(scope="module")
def task():
    return q_task(value_loss=diverging)


@pytest.fixture(scope="module")
def population(task):
    return Population(task, None, FITNESS, chunk_size=4)


def settings(rates):
    return [q_learning.Hyperparams(learning_rate=rate) for rate in rates]


def test_no_score_without_episodes_or_with_infinite_parameters(task):
    ones = np.ones((3, 4), np.float32)
    count = np.float32([[1] * 4, [1] * 4, [0] * 4])
    episodes = EpisodeSums(count, 2 * count, count, 5 * ones, ones)
    agents = Agents(Row(None, None, None, episodes, None, np.array([True, False, True])), 3, 4)
    for weights, wanted in ((FitnessConfig(), [2, np.nan, np.nan]), (FITNESS, [5, np.nan, 5])):
        found = Population(task, None, weights, log_every=1).scores(agents)
        np.testing.assert_array_equal(found, [wanted])


def test_selecting_agents_does_not_change_their_training(population, keys):
    everyone = population.advance(population.init(keys, settings(RATES)), 20)
    agents = population.advance(population.init(keys, settings(RATES)), 8)
    agents = population.advance(agents.select([3, 1]), 12)
    rows = everyone.select([3, 1]).rows
    assert_same(population.place(rows), population.place(agents.rows))
    np.testing.assert_array_equal(population.scores(everyone)[[3, 1]], population.scores(agents))


def test_other_hyperparams_and_lengths_do_not_recompile(population, keys, compilations):
    population.advance(population.init(keys, settings(RATES)), 2)
    compiled = compilations()
    agents = population.advance(population.init(keys, settings([0.3, 0.9, 0.01, 0.2, 0.6])), 9)
    population.advance(agents, 3)
    assert compilations() == compiled


def test_the_chunk_does_not_matter(population, task, keys):
    agents = population.advance(population.init(keys, settings(RATES)), 9)
    for chunk_size, num_devices in ((1, 1), (64, None)):
        other = Population(task, None, FITNESS, chunk_size=chunk_size, num_devices=num_devices)
        again = other.advance(other.init(keys, settings(RATES)), 9)
        np.testing.assert_allclose(other.scores(again), population.scores(agents), rtol=1e-6)


def test_agents_on_devices_match_single_agents(task, keys):
    options = {"log_every": 7, "metrics": True, "chunk_size": 2, "num_devices": 2}
    fixed = Population(task, None, FITNESS, agents=5, **options)
    keys = jax.random.split(keys[0], 5)
    chunks = fixed.place(fixed.init(keys).rows)
    assert len(chunks) == 2
    for done, updates in ((0, 4), (4, 0), (4, 9)):
        chunks = fixed.run(chunks, done, updates)
    rows = fixed.rows(chunks)
    learner, others = task.learner, (q_learning.Hyperparams(), None, task.env_params)
    update = jax.jit(learner.update)
    for index, key in enumerate(keys):
        agent, rewards, error = learner.init(key, *others), 0.0, 0.0
        for _ in range(13):
            agent, sums, metrics = update(agent, *others)
            rewards, error = rewards + float(sums.rewards), error + float(metrics["value_error"])
        np.testing.assert_allclose(rows.agent.q[index], agent.q, rtol=1e-5)
        assert rows.agent.key[index] == agent.key
        assert rows.episodes.rewards[index].sum() == pytest.approx(rewards, abs=1e-5)
        assert rows.metrics["value_error"][index].sum() == pytest.approx(error, rel=1e-5)
    assert_same(chunks, fixed.place(rows))  # as from a checkpoint


def test_a_whole_training_is_one_in_steps(population, task, keys, compilations):
    variants = settings(RATES)
    agents = population.advance(population.init(keys, variants), population.num_updates)
    frames = []
    found, episodes = population.train(keys, variants, None, frames.append)
    np.testing.assert_allclose(found, population.scores(agents), rtol=1e-6)
    assert not agents.diverged.any()
    rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), episodes)
    for one, other in zip(rows, agents.rows.episodes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert sum(frames) == len(RATES) * SEEDS * 60 * 10
    compiled = compilations()
    again, _ = population.train(keys, settings([2.0, 0.3, 0.4, 0.5, 0.6]))
    assert compilations() == compiled
    np.testing.assert_array_equal(np.isnan(again), [[True] * SEEDS] + [[False] * SEEDS] * 4)


@pytest.mark.long
def test_per_row_meta_params_equal_shared_ones(task, keys):
    def scaled(meta_params, context, prediction, target, old_prediction):
        return meta_params * losses.squared(
            meta_params, context, prediction, target, old_prediction
        )

    env, env_params = envs.make("GridWorld", size=4, observations="index")
    config = q_learning.Config(total_timesteps=2000, num_steps=10)
    base = q_learning.Hyperparams(learning_rate=0.5)
    its_task = Bound("GridWorld", q_learning.QLearning(config, env, scaled), env_params, base)
    both = [np.float32(0.0), np.float32(1.0)]
    own = Population(its_task, both[0], FITNESS, chunk_size=4)
    found, *_ = own.train(keys, [base] * 2, both)
    for scores, meta_params in zip(found, both, strict=True):
        shared = Population(its_task, meta_params, FITNESS, chunk_size=4)
        agents = shared.advance(shared.init(keys), shared.num_updates)
        np.testing.assert_allclose(shared.scores(agents)[0], scores, rtol=1e-6)
    assert not np.array_equal(found[0], found[1])


@pytest.mark.smoke
def test_agents_of_a_learned_optimizer_train_on_all_devices(keys):
    """JAX 0.11.2 ended the process while it compiled this."""
    make_optimizer, meta_params = metaevo.load("zoo:ppo-momenta")
    env, env_params = envs.make("CartPole-v1")
    learner = ppo.PPO(ppo.Config(512, hidden_sizes=(4,)), env, make_optimizer=make_optimizer)
    its_task = Bound("CartPole-v1", learner, env_params, ppo.Hyperparams())
    agents = Population(its_task, meta_params, FITNESS)
    trained = agents.advance(agents.init(keys), 1)
    assert not trained.diverged.any()
    alone = learner.init(keys[0], ppo.Hyperparams(), meta_params, env_params)
    shapes = jax.tree.map(lambda leaf: (SEEDS, *leaf.shape), alone)
    assert jax.tree.map(lambda leaf: leaf.shape, trained.rows.agent) == shapes


def test_the_greedy_policy_is_evaluated_in_between(keys):
    fitness = FitnessConfig(0.0, evaluation_return=1.0, evaluation_episodes=2, evaluations=3)
    task, variants, total = q_task(8), settings(RATES), len(RATES) * SEEDS
    population = Population(task, None, fitness, chunk_size=4, rungs=[1])
    assert population.evaluated.tolist() == [1, 3, 6, 8]
    agents, frames = population.init(keys, variants), []
    agents = population.advance(agents, 5, frames.append)
    assert sum(frames) == total * population.frames_after(5) == total * (5 * 10 + 2 * 2 * 100)
    found = np.asarray(agents.rows.evaluations)
    assert np.isnan(found).tolist() == [[False, False, True, True]] * total
    np.testing.assert_array_equal(population.scores(agents).ravel(), found[:, 1])
    agents = population.advance(agents, 3, frames.append)
    assert sum(frames) == total * population.frames
    np.testing.assert_allclose(population.train(keys, variants).scores, population.scores(agents))
    assert np.std(agents.rows.evaluations) > 0
    rewards = agents.rows.episodes.rewards
    train = jax.jit(task.evaluated_for(fitness).train)
    for variant, seed in ((0, 2), (3, 0)):
        alone = train(keys[seed], variants[variant], None)
        own = np.asarray(agents.rows.evaluations)[variant * SEEDS + seed]
        np.testing.assert_allclose(alone.evaluations, own[1:])
        np.testing.assert_allclose(alone.episodes.rewards, rewards[variant * SEEDS + seed])
