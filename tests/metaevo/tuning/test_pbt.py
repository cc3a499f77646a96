"""Population-based training: copies are exact, bounds hold, a planted better setting takes over."""

import jax
import numpy as np
import pytest

from metaevo.runs import checkpoint
from metaevo.training import pbt
from metaevo.training.fitness import FitnessConfig
from metaevo.training.pbt import Dim, History, Pbt
from metaevo.training.population import Population
from metaevo.training.train_learner import Task
from metaevo.tuning.config import PbtConfig, SweepConfig
from purerl import envs, q_learning
from purerl.types import EpisodeSums

BASE = q_learning.Hyperparams()
MEMBERS, SEEDS, ROUNDS, BROKEN = 4, 2, 4, 2
DIMS = [Dim("learning_rate", 1e-7, 0.6, log=True), Dim("gamma", choices=(0.9, 0.95))]
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
    return Pbt(population, DIMS, config, SweepConfig(seeds=SEEDS), members=MEMBERS)


@pytest.fixture(scope="module")
def two_devices():
    return make(2, 2)


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(1), SEEDS)


def run(members, keys):
    state, records = members.init(SETTINGS, keys), []
    for index in range(ROUNDS):
        state, record = members.round(state, index, jax.random.key(7))
        records.append(record)
    return state, jax.tree.map(lambda *leaves: np.stack(leaves), *records)


@pytest.fixture(scope="module")
def ran(two_devices, keys):
    return run(two_devices, keys)


def test_neither_devices_nor_chunks_matter(ran, keys):
    state, history = run(make(1, 8), keys)
    jax.tree.map(np.testing.assert_array_equal, history, ran[1])
    a, b = (jax.tree.leaves(jax.device_get(each.rows)) for each in (state, ran[0]))
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one.ravel(), other.ravel())


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


def test_a_copy_has_all_bits_of_its_parent(two_devices, keys):
    """And goes on with another setting."""
    state = two_devices.init(SETTINGS, keys)
    state, record = two_devices.round(state, 0, jax.random.key(7))
    rows = jax.tree.map(lambda leaf: leaf.reshape(MEMBERS, SEEDS, -1), jax.device_get(state.rows))
    replaced = np.flatnonzero(record.parents != np.arange(MEMBERS))
    assert BROKEN in replaced
    for member in replaced:
        parent = record.parents[member]
        for leaf in jax.tree.leaves((rows.agent, rows.episodes)):
            np.testing.assert_array_equal(leaf[member], leaf[parent])
        rate = record.hyperparams["learning_rate"][parent]
        assert (rows.hyperparams.learning_rate[member] != rate).all()


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(two_devices, ran, keys, tmp_path):
    state, key = two_devices.init(SETTINGS, keys), jax.random.key(7)
    for index in range(ROUNDS):
        if index == 2:
            checkpoint.save_tree(tmp_path / "leaves", jax.tree.leaves(jax.device_get(state)))
            saved, _ = checkpoint.load_tree(tmp_path / "leaves")
            state = two_devices.place(jax.tree.unflatten(jax.tree.structure(state), saved))
        state, record = two_devices.round(state, index, key)
    np.testing.assert_array_equal(record.scores, ran[1].scores[-1])
    want = ran[0].rows.agent.q
    np.testing.assert_array_equal(jax.device_get(state.rows.agent.q), jax.device_get(want))


def test_a_round_is_scored_by_the_fitness_of_the_run(two_devices, keys):
    """Here the reward of a step, of which an episode's return knows nothing."""
    state, record = two_devices.round(two_devices.init(SETTINGS, keys), 0, jax.random.key(7))
    rows = jax.tree.map(lambda leaf: leaf.reshape(MEMBERS, SEEDS, -1), jax.device_get(state.rows))
    went_on = record.parents == np.arange(MEMBERS)
    rewards = rows.episodes.rewards.sum(axis=-1) / rows.episodes.steps.sum(axis=-1)
    np.testing.assert_allclose(record.scores[went_on], rewards.mean(axis=1)[went_on], rtol=1e-6)


def test_measures_of_a_round_are_weighted_and_bridged():
    """Members: one that finished two episodes; one that finished none, with and without a past."""
    sums = [[2, 0, 0], [30, 0, 0], [0, 0, 0], [40, 8, 8], [100, 100, 100]]
    recent = EpisodeSums(*np.float32(sums)[..., np.newaxis])  # a field, and a member, each
    previous = np.float32([[1.0], [7.0], [np.nan]])
    weights = FitnessConfig(mean_return=1.0, final_return=2.0, reward_per_step=10.0)
    scores = pbt.round_score(weights, recent, previous)
    np.testing.assert_allclose(scores[:, 0], [15 + 2 * 15 + 10 * 0.4, 7.0, 0.08], rtol=1e-6)
    steps_only = pbt.round_score(FitnessConfig(0, 0, 10.0), recent, previous)
    np.testing.assert_allclose(steps_only[:, 0], [4.0, 0.8, 0.8], rtol=1e-6)


def test_a_lineage_by_hand():
    rates = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    parents = np.array([[0, 1, 1], [2, 1, 2], [0, 1, 2]])
    history = History(np.array([[0, 0, 0], [0, 0, 0], [2.0, 1, 0]]), parents, {"rate": rates})
    assert pbt.winner(history) == 0
    # Before the last round 0 became a copy of 2, which before had become a copy of 1.
    assert pbt.lineage(history, 0)["rate"].tolist() == [2.0, 6.0, 7.0]
    assert pbt.lineage(history, 1)["rate"].tolist() == [2.0, 5.0, 8.0]


def test_a_schedule_repeats_what_the_winner_did(two_devices, ran, keys):
    state, history = ran
    best = pbt.winner(history)
    agents = pbt.train_schedule(two_devices.population, pbt.lineage(history, best), keys)
    want = two_devices.population.select(two_devices.agents(state), [best])
    # Two programs, which XLA may round differently.
    np.testing.assert_allclose(agents.rows.agent.q, want.rows.agent.q, rtol=1e-5, atol=1e-7)


def test_too_small_populations_are_refused(two_devices):
    with pytest.raises(ValueError, match="at least 2"):
        Pbt(two_devices.population, DIMS, PbtConfig(), SweepConfig(), members=1)
    with pytest.raises(ValueError, match="at most 8"):
        Pbt(two_devices.population, DIMS, PbtConfig(rounds=9), SweepConfig(), members=4)
