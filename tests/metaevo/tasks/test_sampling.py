import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from metaevo.commands.evaluate import main as evaluate
from metaevo.config import ConfigError
from metaevo.evolution.problem import task_key
from metaevo.parts.resolve import seen_by
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.run import run_evolutions
from metaevo.studies.study import Study
from metaevo.tasks import sampling
from purerl import envs, ppo
from purerl.envs.scaled import ScaledParams, ScaledRewards
from purerl.parts.evaluation import GreedyEvaluations
from tests.metaevo import evolving

SAMPLE = {
    "env_params.length": {"uniform": [0.3, 1.0]},
    "hyperparams.gamma": {"choice": [0.9, 0.99]},
    "updates": {"log_uniform": [2, 4]},
    "reward_scale": {"log_uniform": [0.1, 10]},
}
SETTINGS = {
    "learner": "ppo",
    "evolve": "optimizer",
    "train": {"total_timesteps": 256, "num_envs": 2, "num_steps": 32, "hidden_sizes": [8],
              "update_epochs": 1, "num_minibatches": 1},
    "tasks": {
        "poles": {"env": "CartPole-v1", "sample": SAMPLE},
        "Catch-bsuite": {"train": {"num_envs": 4, "hidden_sizes": [4]}},
    },
    "strategy": {"population_size": 4},
    "evolution": {"generations": 2, "validation_seeds": 2},
    "evaluation": {"seeds": 0},
}  # fmt: skip


def study_of(**changes):
    return evolving.study_of({**SETTINGS, **changes})


def drawn(rule, count=4000):
    (entry,) = sampling.read({"updates": rule}, "sample").values()
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(jax.vmap(lambda key: sampling.draw(entry, key))(keys))


def test_uniform_numbers():
    values = drawn({"uniform": [2.0, 6.0]})
    assert ((values >= 2) & (values <= 6)).all()
    np.testing.assert_allclose(np.quantile(values, [0.25, 0.5, 0.75]), [3, 4, 5], atol=0.15)
    values = np.log2(drawn({"log_uniform": [1, 256]}))
    np.testing.assert_allclose(np.quantile(values, [0.25, 0.5, 0.75]), [2, 4, 6], atol=0.3)
    assert ((values >= 0) & (values <= 8 + 1e-5)).all()


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ({"choice": [1, 2, 9]}, {1: 1 / 3, 2: 1 / 3, 9: 1 / 3}),
        ({"integer": [2, 8], "step": 3}, {2: 1 / 3, 5: 1 / 3, 8: 1 / 3}),
        ({"log_integer": [1, 4]},
         {n: np.log((n + 0.5) / (n - 0.5)) / np.log(9) for n in (1, 2, 3, 4)}),
    ],
)  # fmt: skip
def test_whole_numbers(rule, shares):
    values = drawn(rule)
    assert values.dtype == np.int32
    found = {value: np.mean(values == value) for value in np.unique(values).tolist()}
    assert found == pytest.approx(shares, abs=0.03)


def test_a_generation_draws_different_tasks():
    problem = study_of().problem
    for seed in range(5):
        key = jax.random.key(seed)
        tasks = [problem.draw_task(task_key(key), index) for index in range(2)]
        assert {int(each.place) for each in tasks} == {0, 1}
        assert not np.array_equal(tasks[0].key, tasks[1].key)
    assert len(problem.tasks) == problem.tasks_per_generation == 2


def training_by_hand(study, drawn, **functions):
    """A function of a key and meta-parameters: the mean return of an agent, and its steps."""
    sample = study.problem.bound[0].sample
    drawn = jax.random.wrap_key_data(drawn.key)
    values, updates = sample.values(drawn), sample.updates(drawn)
    scale = values["reward_scale"]
    env, env_params = envs.make("CartPole-v1")
    env_params = ScaledParams(env_params.replace(length=values["env_params.length"]), scale)
    learner = ppo.PPO(study.settings.train, ScaledRewards(env), **functions)
    hyperparams = study.settings.hyperparams.replace(gamma=values["hyperparams.gamma"])

    @jax.jit
    def train(key, meta_params):
        result = learner.train(
            key, hyperparams, meta_params, env_params, num_updates=updates,
            evaluations=GreedyEvaluations(times=2, episodes=3, max_steps=500),
        )  # fmt: skip
        sums, steps = result.episodes, jnp.sum(result.episodes.steps) + 2 * 3 * 500
        mean = jnp.sum(sums.returns) / jnp.sum(sums.episodes)
        return mean / scale, result.evaluations[-1] / scale, steps

    return train


def test_drawn_values_are_used_in_training():
    tasks = {"poles": {"env": "CartPole-v1", "sample": SAMPLE}}
    fitness = {"evaluation_return": 1.0, "evaluation_episodes": 3, "evaluations": 2}
    study = study_of(tasks=tasks, evolve="value_loss", fitness=fitness)
    problem = study.problem
    meta_params, key = problem.init(jax.random.key(1)), jax.random.key(2)
    task = problem.draw_task(task_key(jax.random.key(3)), 0)
    found = jax.jit(problem.evaluate)(key, meta_params, task)
    mean, last, steps = training_by_hand(study, task, **problem.functions)(key, meta_params)
    np.testing.assert_allclose(found.fitness, mean + last, rtol=1e-4)
    assert last > 1
    assert int(problem.frames(task)) == steps


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"tasks": {}}, "tasks"),
        ({"task": {"env": "Catch-bsuite"}}, "task and tasks"),
        ({"tasks_per_generation": 3}, "tasks_per_generation = 3"),
        ({"tasks": None, "tasks_per_generation": 1}, "tasks_per_generation = 1"),
        ({"tasks": {"CartPol": {}}}, "tasks.CartPol"),
        ({"tasks": {"a/b": {"env": "CartPole-v1"}}}, "a/b"),
        ({"tasks": {"CartPole-v1": {"train": {"num_steps": 1000}}}}, "tasks.CartPole-v1"),
        ({"evaluation": {"seeds": 4, "unseen": {"Catch-bsuite": {}}}}, "evaluation.unseen.Catch"),
        ({"tasks": {"sea": {"env": "DeepSea-bsuite",
                            "sample": {"env_params.size": {"choice": [4, 5]}}}}}, "static"),
    ],
)  # fmt: skip
def test_tasks_that_do_not_fit(changes, where):
    with pytest.raises(ConfigError, match=where):
        study_of(**changes)


@pytest.mark.parametrize(
    ("name", "rule", "where"),
    [
        ("env_params.length", {"uniform": [1.0, 1.0]}, "env_params.length.uniform"),
        ("env_params.lenght", {"uniform": [0.3, 1.0]}, "lenght"),
        ("env_params.max_steps_in_episode", {"uniform": [50, 100]}, "whole number"),
        ("hyperparams.gamma", {"uniform": [0.5, 1.5]}, "gamma"),
        ("hyperparams.gama", {"uniform": [0.5, 0.9]}, "gama"),
        ("updates", {"uniform": [1, 5]}, "updates = .*1 to 4"),
        ("updates", {"choice": [0, 4]}, "updates"),
        ("updates", {"log_uniform": [0.01, 4]}, "updates"),
        ("reward_scale", {"uniform": [-1, 1]}, "reward_scale"),
        ("reward_scale", {"choice": ["large"]}, "reward_scale"),
        ("reward_scale", {"fixed": 2.0}, "reward_scale"),
        ("reward_scale", 3, "reward_scale"),
        ("train.num_envs", {"choice": [2, 4]}, "train.num_envs"),
    ],
)
def test_distributions_that_do_not_fit(name, rule, where):
    with pytest.raises(ConfigError, match=where) as error:
        study_of(tasks={"poles": {"env": "CartPole-v1", "sample": {name: rule}}})
    assert "\n" not in str(error.value)
    assert "tasks.poles.sample" in str(error.value)


@pytest.mark.parametrize(("length", "is_seen"), [(0.5, True), (1.5, False)])
def test_a_task_inside_a_drawn_range_is_seen(length, is_seen):
    other = {"env": "CartPole-v1", "env_params": {"length": length}}
    evaluation = {"seeds": 4, "unseen": {"other": other}}
    if is_seen:
        with pytest.raises(ConfigError, match="evolution sees this task"):
            study_of(evaluation=evaluation)
    else:
        assert study_of(evaluation=evaluation).problem.unseen().tasks == ["other"]


@pytest.mark.long
def test_a_run_on_tasks_is_judged_on_each_task(tmp_path):
    sample = {
        "env_params.slip_probability": {"uniform": [0.0, 0.3]},
        "updates": {"integer": [2, 8]},
    }
    raw = {key: value for key, value in evolving.EVOLUTION.items() if key != "task"}
    settings = evolving.settings_of(raw | {
        "train": {"total_timesteps": 800, "num_steps": 100},
        "tasks": {"slippery": {"env": "GridWorld", "env_params": {"size": 3}, "sample": sample},
                  "GridWorld": {"env_params": {"size": 4}}},
        "evolution": {"generations": 3, "validation_seeds": 2, "num_devices": 1},
        "evaluation": {
            "seeds": 0, "settings": 2, "screening_seeds": 1, "finalists": 2, "selection_seeds": 2,
            "contenders": ["huber"], "space": {"learning_rate": [0.1, 0.3]},
        },
    })  # fmt: skip
    path = tmp_path / "run"
    assert run_evolutions(Study(settings.build(), settings), run_dir=path, resume=False) == 0
    assert evaluate(["--run-dir", str(path), "--evaluation.seeds", "4"]) == 0
    scores = metaevo.Scores.load(path / "transfer" / "tasks" / "scores.npz")
    assert scores.tasks == ("slippery", "GridWorld")
    assert scores.contenders == ("learned", "huber")
    assert np.isfinite(scores.held_out).all()
    assert (scores.finalists[..., 1] > 0).all()  # the learned one is tuned, too
    generations = RunDirectory(path).read_metrics("generation")
    assert len(generations) == 3
    for name in settings.tasks:
        assert np.isfinite(generations[0][f"{name}/fitness"])
    frames = np.diff([0, *(each["frames"] for each in generations)])
    assert 6 * 800 < frames[0] < 12 * 800
    assert (frames > 0).all()
    assert len(set(frames)) > 1
    assert {each.env for each in seen_by(path)} == {"GridWorld"}
