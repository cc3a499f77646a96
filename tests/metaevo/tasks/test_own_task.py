"""Agents of a candidate learn in tasks of their own, which all candidates share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.config import ConfigError, from_dict
from metaevo.parts import LearnedUpdateRule
from metaevo.parts.part import Parts
from metaevo.tasks.binding import Experiment, make_environment
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from metaevo.training.settings import make_task, training_class
from purerl.parts.own_task import OwnTask
from tests.metaevo.evolving import settings_of

RAW = {
    "evolve": "lpg",
    "learner": "lpg",
    "task": {"env": "GridWorlds", "env_params": {"size": 3, "max_steps_in_episode": 6}},
    "train": {"total_timesteps": 64, "num_envs": 2, "num_steps": 8},
    "component": {"hidden_size": 2},
    "fitness": {"mean_return": 0.0, "reward_per_step": 1.0},
}


@pytest.mark.long
def test_tasks_depend_on_keys():
    settings = settings_of(RAW)
    evolved = Parts.single(LearnedUpdateRule(2))
    built = Experiment(settings, evolved, {}, make_environment(settings.task, "lpg"))
    candidates = [evolved.init(jax.random.key(seed)) for seed in (0, 1)]
    task = built.task(evolved.functions(), candidates[0])
    assert isinstance(task.learner, OwnTask)
    population = Population(
        task, settings.hyperparams, candidates[0], FitnessConfig(0.0, 0.0, 1.0), chunk_size=4
    )
    keys = jax.random.split(jax.random.key(2), 4)
    agents = population.init(keys, meta_params=jax.device_get(candidates))
    goals = agents.rows.agent.env_params.layout.goal.reshape(2, 4)
    np.testing.assert_array_equal(*goals)
    assert len(set(goals[0].tolist())) > 1
    agents = population.advance(agents, settings.train.num_updates)
    scores, _, _ = population.train(keys, meta_params=jax.device_get(candidates))
    np.testing.assert_allclose(population.scores(agents), scores, rtol=1e-5)
    assert jnp.isfinite(scores).all()


def test_a_single_training_refuses_a_distribution():
    raw = {"task": {"env": "GridWorlds"}, "learner": "lpg"}
    with pytest.raises(ConfigError, match=r"task.env = 'GridWorlds': is a distribution of tasks"):
        make_task(from_dict(training_class(raw), raw))
