"""Cheap talk at test time: what a candidate is judged by, whole runs, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.commands.evolve import main
from metaevo.runs import checkpoint
from purerl import acting, envs, ppo
from purerl.envs.talking import Talking, TalkParams
from tests.metaevo.studies.games import STEERING, merged, run, study_of
from tests.purerl.messages import message


@pytest.mark.long
def test_fitness_is_the_nearness_of_the_frozen_victim():
    """Against a victim trained directly, and a Python loop of the environment with messages."""
    study = study_of(STEERING)
    problem, key = study.problem({}), jax.random.key(5)
    found = problem.init(jax.random.key(1))
    result = jax.jit(problem.evaluate)(key, found)

    train_key, _, play_key = jax.random.split(key, 3)
    env, params = envs.make("CartPole-v1")

    def say(_, obs):
        return message(found["channel"], obs, jnp)

    learner = ppo.PPO(study.settings.train, Talking(env, say, 2))
    talk = TalkParams(params, None, 3.0)
    trained = jax.jit(learner.train)(train_key, study.settings.hyperparams, None, talk)
    policy = learner.policy(trained.state)
    settings = {"greedy": True, "env_params": talk}
    act = jax.jit(lambda heard: acting.act(learner, policy, None, key, heard, **settings)[0])
    step = jax.jit(env.step_env)

    goal_key, play_key = jax.random.split(play_key)
    goals = np.asarray(jax.random.uniform(goal_key, (3,), minval=-1.5, maxval=1.5))
    total, going = 0.0, 0
    for goal, episode_key in zip(goals, jax.random.split(play_key, 3), strict=True):
        start_key, _ = jax.random.split(episode_key)
        obs, state = env.reset_env(start_key, params)
        for _ in range(12):
            said = 3.0 * message(found["steering"], np.append(obs, goal))
            action = act(jnp.append(obs, said.astype(np.float32)))
            obs, state, _, terminated, _ = step(key, state, action, params)
            total += np.exp(-((float(obs[0]) - goal) ** 2))
            going += 1
            if terminated:
                break
    np.testing.assert_allclose(result.fitness, total / 36, rtol=1e-4)
    np.testing.assert_allclose(result.metrics["unended"], going / 36, rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("by", ["evolution", "ppo"])
def test_a_run_is_judged_drawn_resumed_and_reported(by, tmp_path):
    assert run(merged(STEERING, {"steering": {"by": by}}), tmp_path) == 0
    path = tmp_path / "run"
    result = json.loads((path / "evaluation.json").read_text())
    table = result["steering"]
    assert list(table) == ["learned", "silence", "random"]
    speaking = {"nobody", "a random network", "PPO"} | ({"learned"} if by == "evolution" else set())
    for cells in table.values():
        assert set(cells) == speaking
        assert all(0 < low <= value <= high < 1 for value, low, high in cells.values())
    assert [row["name"] for row in result["variants"]][:2] == ["learned", "silence"]
    idle = result["variants"][1]["mean"]
    assert idle == pytest.approx(table["silence"]["nobody"][0], rel=1e-5)
    assert (path / "figures/steering.gif").is_file()
    weights, about = checkpoint.load_tree(path / "meta_params")
    assert about == {"by": by, "generation": 2}
    assert ("steering" in weights) == (by == "evolution")
    if by == "evolution":
        argv = ["--resume", "--run-dir", str(path), "--generations", "3"]
        assert main([*argv, "--evaluation.seeds", "0"]) == 0


def test_a_pendulum_can_be_steered():
    study = study_of(STEERING, task={"env": "Pendulum-v1"}, steering={"low": -3.0, "high": 3.0})
    study.check()
    found = jax.eval_shape(study.problem({}).init, jax.random.key(0))
    assert found["steering"]["params"]["Torso_0"]["Dense_0"]["kernel"].shape == (4, 8)
