"""The examples in the docstrings of metaevo's public names run, in small sizes."""

import doctest
import inspect
import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from purerl import acting, envs, ppo

NAMES = [name for name in metaevo.__all__ if not name.startswith("_")]
SIZES = {r"generations=\d+": "generations=1", r"trials=\d+": "trials=2",
         r"settings=64\)": "settings=2, finalists=2, selection_seeds=2, seeds=4)",
         r'\["cartpole", "grid"\]': '["cartpole"]',
         r'env="CartPole-v1"': 'env="CartPole-v1", train=train_settings',
         r'"env": "CartPole-v1"': '"env": "CartPole-v1", "train": train_settings',
         r"ppo\.Config\(\)": "ppo.Config(**train_settings)"}  # fmt: skip
PROGRAM = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 3}}
train: {total_timesteps: 200, num_steps: 20}
evolution: {seeds_per_candidate: 2}
evaluation: {seeds: 0}
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    path = tmp_path_factory.mktemp("examples")
    small = {"total_timesteps": 200, "num_steps": 20}
    loss = metaevo.parts.ValueLossNetwork(hidden_sizes=(4,))
    task = metaevo.Task("GridWorld", {"size": 3})
    problem = metaevo.LearnerProblem("q_learning", loss, [task], train=small)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        (path / "tasks.yaml").write_text(PROGRAM)
        options = {"generations": 2, "strategy": {"population_size": 8}}
        found = metaevo.evolve(problem, run_dir="runs/evolve_value_loss/my_run", **options)
        found.save("runs/my_loss")
        rivals = [found, *problem.contenders()]
        metaevo.judge(rivals, metaevo.Budget(seeds=4)).save("scores.npz")
        train = {"total_timesteps": 128, "num_envs": 2, "num_steps": 16, "hidden_sizes": (4,),
                 "num_minibatches": 1, "update_epochs": 1}  # fmt: skip
        for name, rate in (("train/my_run", 1e-3), ("ppo", 1e-3), ("ppo_fast", 2e-3)):
            run = {"hyperparams": {"learning_rate": rate}, "train": train, "seeds": 2,
                   "evaluation": {"episodes": 0, "film": False}}  # fmt: skip
            metaevo.train("ppo", env="CartPole-v1", run_dir=f"runs/{name}", **run)
    return path, {"problem": problem, "found": found, "train_settings": train}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_name_run(name, workspace, monkeypatch):
    path, objects = workspace
    monkeypatch.chdir(path)
    docstring = inspect.getdoc(getattr(metaevo, name))
    examples = doctest.DocTestParser().get_examples(docstring or "")
    assert examples, f"metaevo.{name} has no example"
    env, env_params = envs.make("CartPole-v1")
    obs, _ = env.reset(jax.random.key(0), env_params)
    values = {
        "metaevo": metaevo, "jax": jax, "jnp": jnp, "np": np, "dataclass": dataclass, "ppo": ppo,
        "acting": acting, "env": env, "env_params": env_params, "key": jax.random.key(0),
        "obs": obs, "Scores": metaevo.Scores, **objects,
    }  # fmt: skip
    for example in examples:
        source = example.source
        for pattern, small in SIZES.items():
            source = re.sub(pattern, small, source)
        exec(compile(source, f"<metaevo.{name}>", "exec"), values)
