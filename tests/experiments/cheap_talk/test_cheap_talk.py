from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from experiments.cheap_talk.problem import CheapTalk, VictimConfig
from experiments.cheap_talk.talking import Messenger, Talking, TalkParams
from metaevo.commands.evolve import main
from metaevo.config import load_yaml
from purerl import envs, ppo
from tests.experiments.cheap_talk.test_talking import message

TRAIN = {
    "total_timesteps": 256, "num_envs": 2, "num_steps": 32, "update_epochs": 1,
    "num_minibatches": 2, "hidden_sizes": [8],
}  # fmt: skip
CONFIG = f"""
problem: experiments.cheap_talk.problem:CheapTalk
channel: {{hidden_sizes: [8], scale: 3.0}}
victims: {{PPO: {{train: {TRAIN}}}}}
strategy: {{population_size: 4, sigma: 0.1}}
evolution: {{generations: 2, validation_every: 1, validation_seeds: 2, num_devices: 1}}
evaluation: {{seeds: 4}}
"""

RECORDED = -84.821396


def problem_of(**changes):
    channel, victims = Messenger(2, 3.0, (8,)), {"PPO": VictimConfig(train=TRAIN)}
    return CheapTalk(channel=channel, victims=victims, **changes)


@pytest.mark.long
def test_the_fitness_is_the_return_of_a_victim():
    ally = problem_of(role="ally", final_return=2.0)
    weights, key = ally.init(jax.random.key(1)), jax.random.key(5)
    env, params = envs.make("CartPole-v1")
    talking = Talking(env, lambda _, obs: 3.0 * message(weights, obs, jnp), 2)
    learner = ppo.PPO(ppo.Config(**TRAIN | {"hidden_sizes": (8,)}), talking)
    heard = TalkParams(params, None)
    episodes = jax.jit(learner.train)(key, ppo.Hyperparams(), None, heard).episodes
    whole = episodes.returns.sum() / episodes.episodes.sum()
    last = episodes.returns[-1:].sum() / episodes.episodes[-1:].sum()
    found = jax.jit(ally.evaluate)(key, weights, 0)
    np.testing.assert_allclose(found.fitness, whole + 2 * last, rtol=1e-4)
    np.testing.assert_allclose(found.metrics["victim_mean_return"], whole, rtol=1e-4)


@pytest.mark.long
def test_a_run_is_judged_on_the_same_fresh_victims(tmp_path):
    (tmp_path / "config.yaml").write_text(CONFIG)
    path = tmp_path / "run"
    assert main(["--config", str(tmp_path / "config.yaml"), "--run-dir", str(path)]) == 0
    names = ("learned", "silence", "constant", "random", "noise")
    own = metaevo.Scores.load(path / "scores.npz")
    assert own.contenders == names
    _, *hand_written = own.held_out[:, 0, 0].mean(axis=-1)
    assert len(set(hand_written)) > 1  # all hear something else
    assert (path / "figures" / "messages.png").exists()
    assert jax.tree.structure(metaevo.load(path)) == jax.tree.structure(
        problem_of().init(jax.random.key(0))
    )


def test_victims_of_the_recorded_adversary_score_what_they_did():
    """The preset's victim with an eighth of its steps; measured at commit 04e737a6."""
    raw = load_yaml("configs/cheap_talk/cartpole.yaml")
    raw["victims"]["PPO"]["train"] |= {"total_timesteps": 4096}
    victims = {"PPO": VictimConfig(**raw["victims"]["PPO"])}
    weights = metaevo.load(Path("experiments/cheap_talk/found/cartpole"))
    found = jax.jit(CheapTalk(victims=victims).evaluate)(jax.random.key(7), weights, 0)
    np.testing.assert_allclose(found.fitness, RECORDED, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"victims": {"x": VictimConfig("q_learning")}, "env": "GridWorld"}, "[qQ].learning"),
        ({"env": "GridWorld", "env_params": {"observations": "index"}}, "state numbers"),
        ({"env": "Breakout-MinAtar"}, "images"),
        ({"env": "CartPole"}, "env: "),
        ({"unseen_victims": {"SAC": VictimConfig("sac")}}, "SAC: learner = 'sac'"),
        ({"victims": {"x": VictimConfig(hyperparams={"learning_rat": 1})}}, "learning_rat"),
        ({"victims": {"x": VictimConfig(hyperparams={"gamma": 1.5})}}, "gamma = 1.5"),
        ({"victims": {"x": VictimConfig(train={"num_envs": 0})}}, "num_envs = 0"),
    ],
)
def test_bad_input_is_one_line(changes, words):
    with pytest.raises(metaevo.ConfigError, match=words) as raised:
        CheapTalk(**changes).unseen()
    assert "\n" not in str(raised.value)
