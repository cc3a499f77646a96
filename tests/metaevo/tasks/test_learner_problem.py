"""From a notebook: evolve a part, compare it, use it, without a settings file."""

import jax
import numpy as np
import pytest

import metaevo
from examples import tilted
from metaevo.config import DeviceError, code
from metaevo.parts.resolve import seen_by
from purerl import envs, q_learning
from purerl.envs.grid_world import GridWorld

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


def test_its_function_fills_the_slot(problem, found):
    env, params = envs.make("GridWorld", size=3, observations="index")
    config = q_learning.Config(total_timesteps=512, num_steps=128)
    train = jax.jit(q_learning.make_train(config, env, **problem.functions))
    result = train(jax.random.key(0), q_learning.Hyperparams(), found.meta_params, params)
    assert np.isfinite(np.asarray(result.episodes.returns)).all()


def test_a_failed_run_is_continued_by_arguments(problem, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise jax.errors.JaxRuntimeError("the device is gone")

    monkeypatch.setattr("metaevo.studies.run.make_evolution", fail)
    with pytest.raises(DeviceError) as error:
        metaevo.evolve(problem, evolution=CONFIG, run_dir=tmp_path / "run")
    assert "resume=True" in str(error.value)


def test_training_takes_the_result(found):
    result = metaevo.train("q_learning", value_loss=found, seeds=2, **SIZES)
    pair = metaevo.train("q_learning", value_loss=found.part("value_loss"), seeds=2, **SIZES)
    np.testing.assert_array_equal(result.scores, pair.scores)
    with pytest.raises(metaevo.ConfigError, match="make_optimizer"):
        metaevo.train("ppo", make_optimizer=found, seeds=2)


def test_a_saved_part_is_loaded(found, tmp_path):
    found.save(tmp_path / "mine")
    function, meta_params = metaevo.load(tmp_path / "mine")
    assert callable(function)
    (task,) = seen_by(tmp_path / "mine")
    assert task.env == "GridWorld"  # generality leaves such tasks out
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, meta_params, found.meta_params)))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"parts": "value_los"}, "value_los"),
        ({"tasks": ["GridWorl"]}, "GridWorl"),
        ({"tasks": []}, "at least one task"),
        ({"train": {"total_timestep": 5}}, "total_timestep"),
        ({"hyperparams": {"learning_rat": 5}}, "learning_rat"),
        ({"fixed": {"policy_loss": "dpo"}}, "no slot 'policy_loss'"),
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


@pytest.mark.parametrize("wrong", [[3], [jax.numpy], [metaevo.Part], []])
def test_other_objects_are_refused_as_parts(wrong):
    with pytest.raises(metaevo.ConfigError, match="parts"):
        metaevo.LearnerProblem("q_learning", wrong, [GRID], train=TRAIN)


def test_a_class_and_an_object_are_environments():
    expected, _ = evaluated("value_loss")
    assert evaluated("value_loss", metaevo.Task(GridWorld, {"size": 3}))[0] == expected
    assert evaluated("value_loss", metaevo.Task(GridWorld(size=3)))[0] == expected


def test_two_classes_of_one_name_are_two_environments():
    first, second = (type("Twin", (GridWorld,), {}) for _ in range(2))
    assert code.name_of(first) == code.name_of(first)
    assert code.name_of(first) != code.name_of(second)


@pytest.mark.parametrize("wrong", [3, dict])
def test_other_objects_are_refused_as_environments(wrong):
    with pytest.raises(metaevo.ConfigError, match="must be a gymnax environment"):
        metaevo.LearnerProblem("q_learning", "value_loss", [wrong])
