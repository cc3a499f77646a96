import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from examples import tilted
from metaevo.config.plain import DeviceError
from metaevo.parts.resolve import seen_by
from metaevo.tasks.scales import measure_scales
from metaevo.tasks.task import Bound
from purerl import envs, ppo
from purerl.envs.grid_world import GridWorld
from purerl.types import EpisodeSums, TrainResult
from tests.metaevo.toy import assert_same

pytestmark = pytest.mark.long

STRATEGY = metaevo.OpenES(population_size=8, sigma=0.1)
CONFIG = metaevo.EvolutionConfig(
    generations=2, validation_seeds=2, validation_every=1, num_devices=1
)
TRAIN = {"total_timesteps": 512, "num_steps": 128}
SIZES = {"env": "GridWorld", "env_params": {"size": 3}, "train": TRAIN}
GRID = metaevo.Task("GridWorld", {"size": 3})


@pytest.fixture(scope="module")
def problem():
    return metaevo.LearnerProblem("q_learning", "value_loss", [GRID], train=TRAIN)


@pytest.fixture(scope="module")
def found(problem):
    return metaevo.evolve(problem, strategy=STRATEGY, evolution=CONFIG)


def test_it_is_evolved_and_judged_in_memory(problem, found):
    assert len(found.metrics) == 2
    assert problem.frames(problem.draw_task(jax.random.key(0), 0)) == 512
    assert found.frames_per_generation == 8 * 512
    space = {"learning_rate": {"log_uniform": [0.01, 0.5]}}
    rivals = [found.contender(), *problem.contenders(["huber"])]
    budget = metaevo.Budget(settings=2, screening_seeds=1, selection_seeds=1, seeds=4)
    scores = metaevo.judge(rivals, budget, space=space)
    assert scores.contenders == ("learned", "huber")
    assert scores.verdict().word == "too few to conclude"


def test_a_failed_run_is_continued_by_arguments(problem, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise jax.errors.JaxRuntimeError("the device is gone")

    monkeypatch.setattr("metaevo.studies.run.make_evolution", fail)
    with pytest.raises(DeviceError) as error:
        metaevo.evolve(problem, evolution=CONFIG, run_dir=tmp_path / "run")
    assert "resume=True" in str(error.value)


def test_training_takes_the_result_and_a_saved_part(found, tmp_path):
    path = tmp_path / "mine"
    found.save(path)
    function, meta_params = metaevo.load(path)
    assert_same(meta_params, found.meta_params)
    expected = metaevo.train("q_learning", value_loss=found, seeds=2, **SIZES).scores
    for given in (found.part("value_loss"), path, (function, meta_params)):
        again = metaevo.train("q_learning", value_loss=given, seeds=2, **SIZES)
        np.testing.assert_array_equal(again.scores, expected)
    (task,) = seen_by(path)
    assert task.env == "GridWorld"  # generality leaves such tasks out
    with pytest.raises(metaevo.ConfigError, match="make_optimizer"):
        metaevo.train("ppo", make_optimizer=found, seeds=2)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"parts": "value_los"}, "value_los"),
        ({"tasks": ["GridWorl"]}, "GridWorl"),
        ({"tasks": []}, "at least one task"),
        ({"train": {"total_timestep": 5}}, "total_timestep"),
        ({"hyperparams": {"learning_rat": 5}}, "learning_rat"),
        ({"fixed": {"policy_loss": "dpo"}}, "no slot 'policy_loss'"),
        ({"fixed": {"value_loss": "huber"}}, "no slot 'value_loss' that is not evolved"),
        *(({"parts": wrong}, "parts") for wrong in ([3], [jax.numpy], [metaevo.Part], [])),
        *(({"tasks": [wrong]}, "must be a gymnax environment") for wrong in (3, dict)),
        ({"tasks": ["examples/corridor.py:State"]}, "gymnax"),
    ],
)
def test_a_wrong_argument_is_named(changes, key):
    given = {"parts": "value_loss", "tasks": [GRID], "train": TRAIN, **changes}
    with pytest.raises(metaevo.ConfigError, match=key):
        metaevo.LearnerProblem("q_learning", **given)


def evaluated(part, task=GRID):
    problem = metaevo.LearnerProblem("q_learning", part, [task], train=TRAIN)
    candidates = jax.vmap(problem.init)(jax.random.split(jax.random.key(0), 2))
    scores = metaevo.evaluate(problem, candidates, jax.random.split(jax.random.key(1), 2)).scores
    return scores.tolist(), problem


def test_a_file_and_an_object_are_parts(tmp_path):
    expected, _ = evaluated("examples/tilted.py")
    of_object, problem = evaluated([tilted.Tilted()])
    assert of_object == expected
    found = metaevo.evolve(problem, strategy=STRATEGY, evolution=CONFIG)
    found.save(tmp_path / "tilted")
    function, meta_params = metaevo.load(tmp_path / "tilted")
    assert function(meta_params, None, 1.0, 0.0, 0.0) > 0.0


def test_a_class_and_an_object_are_environments():
    expected, _ = evaluated("value_loss")
    assert evaluated("value_loss", metaevo.Task(GridWorld, {"size": 3}))[0] == expected
    assert evaluated("value_loss", metaevo.Task(GridWorld(size=3)))[0] == expected


def test_diverged_training_has_no_fitness():
    """The agent goes on collecting rewards: only its parameters tell."""
    train = {"total_timesteps": 100, "num_steps": 50}
    fitness = {"mean_return": 0.0, "reward_per_step": 1.0}
    part = metaevo.parts.ValueLossNetwork(hidden_sizes=(4,))
    problem = metaevo.LearnerProblem(
        "q_learning", part, ["GridWorld"], train=train, fitness=fitness
    )
    bad = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), problem.init(jax.random.key(0)))
    found = jax.jit(problem.evaluate)(jax.random.key(3), bad, 0)
    assert np.isnan(found.fitness)
    assert np.isfinite(found.metrics["reward_per_step"])


class Standing(ppo.PPO):
    def train(self, key, hyperparams, meta_params, env_params):
        state = self.init(key, hyperparams, meta_params, env_params)
        return TrainResult(
            state, EpisodeSums(*jnp.ones((5, 2)))._replace(returns=jnp.full(2, 9.0)), {}
        )


def test_a_reference_no_better_than_random_play_gives_no_scale(problem, monkeypatch):
    env, env_params = envs.make("CartPole-v1")
    standing = Standing(ppo.Config(64, 2, 16, hidden_sizes=(8,)), env)
    task = Bound("CartPole-v1", standing, env_params, ppo.Hyperparams())
    monkeypatch.setattr(problem, "reference", lambda name: task)
    with pytest.raises(
        metaevo.ConfigError, match=r"tasks\.GridWorld: the hand-written reference scores 9, no bet"
    ):
        measure_scales(problem)
    # the numbers of a quick look mean nothing
    quick = measure_scales(problem, quick=True)
    assert quick == [(9, 10)]
    with pytest.raises(ZeroDivisionError):  # it stops
        measure_scales(problem, check_stop=lambda: 1 / 0)
