"""Cheap talk at test time: what a candidate is judged by, whole runs, and what is refused."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from metaevo.commands.evolve import main
from metaevo.config import from_dict
from metaevo.runs import checkpoint
from metaevo.studies.games.steering import SteeringStudy
from metaevo.studies.registry import STUDIES
from purerl import acting, envs, ppo
from purerl.envs.talking import Talking, TalkParams

SMALL = {
    "study": "steering",
    "channel": {"hidden_sizes": [8], "scale": 3.0},
    "steering": {"steps": 12, "episodes": 3, "oracle_frames": 2048},
    "train": {
        "total_timesteps": 128, "num_envs": 2, "num_steps": 32, "update_epochs": 1,
        "num_minibatches": 2, "hidden_sizes": [8],
    },
    "strategy": {"population_size": 4, "sigma": 0.1},
    "evolution": {
        "generations": 2, "validation_every": 1, "validation_seeds": 2, "num_devices": 1,
    },
    "evaluation": {"seeds": 3},
}  # fmt: skip


def merged(changes):
    found = dict(SMALL)
    for key, value in changes.items():
        found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
    return found


def study_of(**changes):
    raw = merged(changes)
    return SteeringStudy(from_dict(STUDIES["steering"].settings(raw, None), raw))


def said(weights, x):
    """What a network of messages says, in NumPy."""
    layers = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])
    (hidden,) = layers["Torso_0"].values()
    x = np.maximum(x @ hidden["kernel"] + hidden["bias"], 0)
    return np.tanh(x @ layers["out"]["kernel"] + layers["out"]["bias"])


@pytest.mark.long
def test_a_candidate_is_paid_for_where_its_frozen_victim_goes():
    """Against a victim trained directly, and a Python loop of the environment with messages."""
    study = study_of()
    problem, key = study.problem({}), jax.random.key(5)
    found = problem.init(jax.random.key(1))
    result = jax.jit(problem.evaluate)(key, found)

    train_key, _, play_key = jax.random.split(key, 3)
    env, params = envs.make("CartPole-v1")
    layers = found["channel"]

    def say(_, obs):
        hidden = layers["params"]["Torso_0"]["Dense_0"]
        x = jnp.maximum(obs @ hidden["kernel"] + hidden["bias"], 0)
        out = layers["params"]["out"]
        return jnp.tanh(x @ out["kernel"] + out["bias"])

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
            message = 3.0 * said(found["steering"], np.append(obs, goal))
            action = act(jnp.append(obs, message.astype(np.float32)))
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
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(merged({"steering": {"by": by}})))
    path = tmp_path / "run"
    assert main(["--config", str(config), "--run-dir", str(path)]) == 0
    result = json.loads((path / "evaluation.json").read_text())
    table = result["steering"]
    assert list(table) == ["learned", "silence", "random"]
    speaking = {"nobody", "a random network", "PPO"} | ({"learned"} if by == "evolution" else set())
    for cells in table.values():
        assert set(cells) == speaking
        assert all(0 < low <= value <= high < 1 for value, low, high in cells.values())
    names = [row["name"] for row in result["variants"]]
    assert names[:2] == ["learned", "silence"]
    assert names[-1] == ("random, then learned" if by == "evolution" else "random, then PPO")
    idle = result["variants"][1]["mean"]
    assert idle == pytest.approx(table["silence"]["nobody"][0], rel=1e-5)
    assert (path / "figures/steering.png").is_file()
    assert (path / "figures/steering.gif").is_file()
    weights, about = checkpoint.load_tree(path / "meta_params")
    assert about == {"by": by, "generation": 2}
    assert ("steering" in weights) == (by == "evolution")
    argv = ["--resume", "--run-dir", str(path), "--generations", "3", "--evaluation.seeds", "0"]
    assert main(argv) == 0


REFUSED = {
    "too far": ({"steering": {"high": 3}}, r"steering.high = 3: CartPole-v1's cart position is "
                r"always between -2.4 and 2.4"),
    "too far left": ({"steering": {"low": -2.5}}, "steering.low = -2.5: .* between -2.4 and 2.4"),
    "no range": ({"steering": {"low": 1, "high": 1}}, "low = 1 must be below high = 1"),
    "nowhere": (
        {"task": {"env": "Acrobot-v1"}},
        "task.env = 'Acrobot-v1': the place of a victim is unknown there; it must be one of "
        "CartPole-v1, Pendulum-v1",
    ),
    "who": ({"steering": {"by": "sac"}}, "steering.by = 'sac': must be.*evolution.*ppo"),
    "a memory": ({"train": {"recurrent_size": 4}}, "train.recurrent_size must be 0: a victim"),
    "no message": ({"channel": {"width": 0}}, "channel.width = 0: must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_clear_line(name, tmp_path, capsys):
    changes, message = REFUSED[name]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(merged(changes)))
    with pytest.raises(SystemExit) as stopped:
        main(["--config", str(tmp_path / "config.yaml"), "--run-dir", str(tmp_path / "run")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert "\n" not in error
    assert re.search(message, error), error
    assert not (tmp_path / "run").exists()


def test_a_pendulum_can_be_steered():
    study = study_of(task={"env": "Pendulum-v1"}, steering={"low": -3.0, "high": 3.0})
    study.check()
    found = jax.eval_shape(study.problem({}).init, jax.random.key(0))
    assert found["steering"]["params"]["Torso_0"]["Dense_0"]["kernel"].shape == (4, 8)
