import inspect
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import metaevo
from examples.corridor import Corridor
from metaevo import LearnerProblem
from metaevo.config import ConfigError
from metaevo.parts import LearnedUpdateRule
from metaevo.parts.part import Parts
from metaevo.tasks.fitness import FitnessConfig
from metaevo.tasks.population import Population
from metaevo.tasks.task import Setup, TaskConfig, make_environment
from purerl.parts.own_task import OwnTask
from tests.metaevo.evolving import settings_of

CORRIDOR = Path(__file__).parents[3] / "examples" / "corridor.py"
NAME = f"{CORRIDOR}:Corridor"
RAW = {
    "evolve": "lpg",
    "learner": "lpg",
    "task": {"env": "GridWorlds", "env_params": {"size": 3, "max_steps_in_episode": 6}},
    "train": {"total_timesteps": 64, "num_envs": 2, "num_steps": 8},
    "component": {"hidden_size": 2},
    "fitness": {"mean_return": 0.0, "reward_per_step": 1.0},
}


def test_one_by_path_has_traced_parameters():
    _, env, params = make_environment(TaskConfig(NAME, {"length": 4}), "ppo")
    assert make_environment(TaskConfig(NAME), "ppo")[1] is env  # compiled functions are shared
    _, state = env.reset(jax.random.key(0), params)
    for step in range(3):
        _, state, reward, terminated, *_ = env.step(jax.random.key(step), state, 1, params)
    assert (float(reward), bool(terminated)) == (1.0, True)


def test_one_of_a_module_or_the_only_one_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "players_of_mine.py").write_text(CORRIDOR.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("players_of_mine:Corridor", str(CORRIDOR)):
        assert make_environment(TaskConfig(name), "ppo")[1].num_actions == 2


class Net(nn.Module):
    actions: Any
    size: int = 4

    @nn.compact
    def __call__(self, obs):
        x = nn.relu(nn.Dense(self.size)(obs))
        return nn.Dense(getattr(self.actions, "n", self.actions))(x), nn.Dense(1)(x)


def test_tasks_have_networks_of_their_own_and_an_optimizer_evolves_on_them(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(f"import flax.linen as nn\nfrom typing import Any\n\n{inspect.getsource(Net)}")
    given = [f"{path}:Net", str(path), Net(2, size=5), lambda space: Net(space, size=5), None]
    tasks = {
        str(place): metaevo.Task("CartPole-v1", train={} if each is None else {"network": each})
        for place, each in enumerate(given)
    }
    sizes = {"total_timesteps": 64, "num_envs": 4, "num_steps": 16}
    part = metaevo.parts.LearnedOptimizer()
    problem = metaevo.LearnerProblem("ppo", part, tasks, train=sizes, scales=())
    found = [getattr(each.learner.network, "module", None) for each in problem.bound]
    assert [(type(each).__name__, each.size) for each in found[:-1]] == [
        ("Net", size) for size in (4, 4, 5, 5)
    ]
    assert found[-1] is None
    names = [task.train.get("network") for task in problem.named.values()]
    assert names[:2] == given[:2]
    assert all(isinstance(each, str) for each in names[:-1])
    key = jax.random.key(0)
    first = problem.bound[0]
    trained = jax.eval_shape(first.train, key, first.hyperparams, problem.init(key))
    assert trained.metrics["value_loss"].shape == (1,)
    with pytest.raises(ConfigError, match=r"train\.network = 3: must be a flax module"):
        metaevo.LearnerProblem("ppo", part, [metaevo.Task("CartPole-v1", train={"network": 3})])


def test_a_judgement_knows_the_code_of_a_network():
    sizes = {"total_timesteps": 64, "num_envs": 4, "num_steps": 16}
    described = [
        metaevo.LearnerProblem(
            "ppo", metaevo.parts.LearnedOptimizer(), "CartPole-v1", scales=(),
            train={**sizes, "network": Net(2, size=size)},
        ).description
        for size in (5, 5, 6)
    ]  # fmt: skip
    assert described[0] == described[1]
    first, _, other = ([*each[-1].values()] for each in described)
    assert None not in first
    assert first != other


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("state, reward,", "state, jnp.stack([reward] * 2),", r"reward has shape \(2,\)"),
        ("terminated, {}", "terminated.astype(float), {}", r"terminated is float32\[\]"),
    ],
)
def test_a_step_of_other_types_is_named(old, new, part, tmp_path):
    path = tmp_path / "walk.py"
    path.write_text(CORRIDOR.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=rf"walk\.py:Corridor\.step: {part}"):
        make_environment(TaskConfig(env=f"{path}:Corridor"), "ppo")


@pytest.mark.long
def test_tasks_depend_on_keys():
    settings = settings_of(RAW)
    evolved = Parts({"update_rule": LearnedUpdateRule(2)})
    setup = Setup.of("lpg", settings.train, settings.hyperparams, settings.task)
    candidates = [evolved.init(jax.random.key(seed)) for seed in (0, 1)]
    task = setup.bind(evolved.functions(), candidates[0])
    assert isinstance(task.learner, OwnTask)
    fitness = FitnessConfig(0.0, 0.0, 1.0, evaluation_return=1.0, evaluation_episodes=3)
    population = Population(task, candidates[0], fitness, chunk_size=4)
    keys = jax.random.split(jax.random.key(2), 4)
    agents = population.init(keys, meta_params=jax.device_get(candidates))
    goals = agents.rows.agent.env_params.layout.goal.reshape(2, 4)
    np.testing.assert_array_equal(*goals)
    assert len(set(goals[0].tolist())) > 1
    agents = population.advance(agents, settings.train.num_updates)
    scores, _ = population.train(keys, meta_params=jax.device_get(candidates))
    np.testing.assert_allclose(population.scores(agents), scores, rtol=1e-5)
    assert jnp.isfinite(scores).all()


@struct.dataclass
class Length:
    length: int = 8


class Endless(Corridor):
    """An environment that decides itself about the end of an episode."""

    @property
    def default_params(self):
        return Length()

    def is_truncated(self, state, params):
        return jnp.bool_(False)


@pytest.mark.parametrize(
    ("fitness", "complaint"),
    [
        ({}, "episodes of .*Endless may have no end; add `max_steps_in_episode: int` to"),
        ({"evaluations": 3}, "fitness.evaluations = 3: must be at most 2, the updates of a"),
    ],
)
def test_evaluations_that_are_impossible_are_named(fitness, complaint):
    env = Endless if not fitness else Corridor
    options = {"train": {"total_timesteps": 1024}, "fitness": {"evaluation_return": 1.0, **fitness}}
    with pytest.raises(ConfigError, match=complaint):
        LearnerProblem("ppo", "value_loss", [env], **options)
