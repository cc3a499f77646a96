"""Population-based training: copies are exact, bounds hold, a planted better setting takes over."""

import jax
import numpy as np
import pytest
from optuna.distributions import FloatDistribution

from metaevo.training import pbt
from metaevo.training.fitness import FitnessConfig
from metaevo.training.pbt import History, Pbt
from metaevo.training.population import Population
from metaevo.training.train_learner import Task
from metaevo.tuning.config import PbtConfig, SweepConfig
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import Space
from purerl import envs, q_learning
from purerl.types import EpisodeSums

BASE = q_learning.Hyperparams()
MEMBERS, SEEDS, ROUNDS, BROKEN = 4, 2, 4, 2
SPACE = Space(
    {
        "hyperparams.learning_rate": FloatDistribution(1e-7, 0.6, log=True),
        "hyperparams.gamma": Choice((0.9, 0.95)),
    },
    {},
)
# The second one learns, the third one diverges, the others can only play at random.
SETTINGS = [BASE.replace(learning_rate=rate) for rate in (1e-7, 0.5, float("inf"), 1e-7)]


def make(num_devices, chunk_size):
    env, env_params = envs.make("GridWorld", observations="index")
    config = q_learning.Config(total_timesteps=8000, num_steps=1000)
    task = Task("GridWorld", q_learning.QLearning(config, env), env_params)
    population = Population(
        task,
        BASE,
        None,
        FitnessConfig(0, 0, 1.0),
        chunk_size=chunk_size,
        num_devices=num_devices,
    )
    config = PbtConfig(rounds=ROUNDS, truncation=0.25)
    return Pbt(population, SPACE, config, SweepConfig(seeds=SEEDS), seed=7)


@pytest.fixture(scope="module")
def two_devices():
    return make(2, 2)


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(1), SEEDS)


def run(members, keys):
    state, history = members.init(SETTINGS, keys), members.empty_history(MEMBERS)
    for index in range(ROUNDS):
        state = members.round(state, index, history)
    return state, history


def first_round(members, keys):
    state, history = members.init(SETTINGS, keys), members.empty_history(MEMBERS)
    state = members.round(state, 0, history)
    rows = jax.tree.map(lambda leaf: leaf.reshape(MEMBERS, SEEDS, -1), state.agents.rows)
    return rows, history


@pytest.fixture(scope="module")
def ran(two_devices, keys):
    return run(two_devices, keys)


@pytest.mark.long
def test_neither_devices_nor_chunks_matter(ran, keys):
    state, history = run(make(1, 8), keys)
    jax.tree.map(np.testing.assert_array_equal, history, ran[1])
    jax.tree.map(np.testing.assert_array_equal, state, ran[0])


def test_the_planted_setting_takes_over_and_bounds_hold(ran):
    history = ran[1]
    rates = history.hyperparams["learning_rate"]
    assert history.scores[0, BROKEN] == -np.inf
    assert np.isfinite(history.scores[1:]).all()
    assert history.parents[0, BROKEN] == np.argmax(history.scores[0])
    assert (rates[1:] <= np.float32(0.6)).all()
    assert (rates[1:] >= np.float32(1e-7)).all()
    assert np.isin(history.hyperparams["gamma"], np.float32([0.9, 0.95])).all()
    np.testing.assert_array_equal(history.parents[-1], np.arange(MEMBERS))
    assert pbt.lineage(history, pbt.winner(history))["learning_rate"][0] == np.float32(0.5)


def test_a_copy_equals_its_parent_bit_for_bit(two_devices, keys):
    """And goes on with another setting."""
    rows, history = first_round(two_devices, keys)
    replaced = np.flatnonzero(history.parents[0] != np.arange(MEMBERS))
    assert BROKEN in replaced
    for member in replaced:
        parent = history.parents[0, member]
        for leaf in jax.tree.leaves((rows.agent, rows.episodes)):
            np.testing.assert_array_equal(leaf[member], leaf[parent])
        rate = history.hyperparams["learning_rate"][0, parent]
        assert (rows.hyperparams.learning_rate[member] != rate).all()


def test_measures_of_a_round_are_weighted_and_bridged():
    """Agents: one that finished two episodes; one that finished none, with and without a past."""
    sums = [[2, 0, 0], [30, 0, 0], [0, 0, 0], [40, 8, 8], [100, 100, 100]]
    recent, finite = EpisodeSums(*np.float32(sums)), np.ones(3, bool)
    previous = np.array([1.0, 7.0, np.nan])
    weights = FitnessConfig(mean_return=1.0, final_return=2.0, reward_per_step=10.0)
    scores = pbt.round_scores(weights, recent, finite, previous)
    np.testing.assert_allclose(scores, [15 + 2 * 15 + 10 * 0.4, 7.0, 0.08], rtol=1e-6)
    steps_only = pbt.round_scores(FitnessConfig(0, 0, 10.0), recent, finite, previous)
    np.testing.assert_allclose(steps_only, [4.0, 0.8, 0.8], rtol=1e-6)


def test_a_lineage_by_hand():
    rates = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    parents = np.array([[0, 1, 1], [2, 1, 2], [0, 1, 2]])
    history = History(np.array([[0, 0, 0], [0, 0, 0], [2.0, 1, 0]]), parents, {"rate": rates})
    assert pbt.winner(history) == 0
    # Before the last round 0 became a copy of 2, which before had become a copy of 1.
    assert pbt.lineage(history, 0)["rate"].tolist() == [2.0, 6.0, 7.0]
    assert pbt.lineage(history, 1)["rate"].tolist() == [2.0, 5.0, 8.0]


@pytest.mark.long
def test_a_schedule_reproduces_the_winner(two_devices, ran, keys):
    state, history = ran
    best = pbt.winner(history)
    agents = pbt.train_schedule(two_devices.population, pbt.lineage(history, best), keys)
    want = two_devices.population.select(state.agents, [best])
    # Chunks of other sizes, which XLA may round differently.
    np.testing.assert_allclose(agents.rows.agent.q, want.rows.agent.q, rtol=1e-5, atol=1e-7)
