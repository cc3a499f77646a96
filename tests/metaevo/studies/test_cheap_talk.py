"""Cheap talk: what a candidate is judged by, whole runs by the command, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from metaevo.config import ConfigError, from_dict
from metaevo.evolution.problem import TASK
from metaevo.runs import checkpoint
from metaevo.studies.games.cheap_talk import CheapTalkStudy
from metaevo.studies.games.settings import CheapTalkSettings
from metaevo.studies.games.victims import all_victims
from metaevo.training import sampling
from purerl import envs, ppo
from purerl.envs.talking import Talking, TalkParams
from tests.metaevo.studies.games import DQN, TALK, merged, run
from tests.purerl.messages import message


def study_of(**changes):
    raw = merged(TALK, changes)
    return CheapTalkStudy(from_dict(CheapTalkSettings.for_learner(raw), raw))


def trained(key, weights, *, length=0.5, learning_rate=None):
    """A victim that is trained directly, and what it earned in every update."""
    settings = study_of().settings
    env, params = envs.make("CartPole-v1", length=length)
    talking = Talking(env, lambda _, obs: message(weights, obs, jnp), 2)
    learner = ppo.PPO(settings.train, talking)
    hyperparams = settings.hyperparams
    if learning_rate is not None:
        hyperparams = hyperparams.replace(learning_rate=learning_rate)
    result = jax.jit(learner.train)(key, hyperparams, None, TalkParams(params, None, 3.0))
    return jax.tree.map(np.asarray, result.episodes)


@pytest.mark.long
def test_an_adversary_is_paid_what_its_victim_is_not():
    """Fitness is the victim's mean return, with the sign of the role."""
    key, adversary = jax.random.key(5), study_of().problem({})
    ally = study_of(role="ally").problem({})
    weights = adversary.init(jax.random.key(1))
    found = jax.jit(adversary.evaluate)(key, weights)
    assert jax.jit(ally.evaluate)(key, weights).fitness == -found.fitness
    episodes = trained(key, weights)
    expected = episodes.returns.sum() / episodes.episodes.sum()
    np.testing.assert_allclose(-found.fitness, expected, rtol=1e-5)
    np.testing.assert_allclose(found.metrics["victim_mean_return"], expected, rtol=1e-5)
    last = episodes.returns[-1:].sum() / episodes.episodes[-1:].sum()
    assert len(episodes.returns) == 4
    np.testing.assert_allclose(found.metrics["victim_last_quarter"], last, rtol=1e-5)


SAMPLE = {
    "env_params.length": {"uniform": [0.2, 2.0]},
    "hyperparams.learning_rate": {"log_uniform": [1e-3, 1e-1]},
}


@pytest.mark.long
def test_what_is_drawn_for_a_victim_arrives_in_its_training():
    problem = study_of(sample=SAMPLE).problem({})
    weights = problem.init(jax.random.key(1))
    evaluate, found = jax.jit(problem.evaluate), []
    for seed in (5, 6):
        key = jax.random.key(seed)
        values = sampling.draw_all(problem.sample, jax.random.fold_in(key, TASK))
        episodes = trained(
            key,
            weights,
            length=float(values["env_params.length"]),
            learning_rate=values["hyperparams.learning_rate"],
        )
        expected = episodes.returns.sum() / episodes.episodes.sum()
        np.testing.assert_allclose(-evaluate(key, weights).fitness, expected, rtol=1e-4)
        found.append(float(values["env_params.length"]))
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("updates", {"integer": [1, 2]}),
        ("env_params.lenght", {"uniform": [0.2, 2.0]}),
        ("env_params.length", {"uniform": [2.0, 0.2]}),
        ("hyperparams.gamma", {"uniform": [0.5, 1.5]}),
        ("channel.scale", {"uniform": [1.0, 2.0]}),
    ],
)
def test_what_cannot_be_drawn_for_a_victim_is_refused(name, rule):
    with pytest.raises(ConfigError, match=rf"sample.*{name.split('.')[-1]}") as error:
        study_of(sample={name: rule})
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("talk")
    assert run(TALK, path) == 0
    return path / "run"


@pytest.mark.long
def test_every_channel_talks_to_the_same_fresh_victims(directory):
    result = json.loads((directory / "evaluation.json").read_text())
    names = ["learned", "silence", "constant", "random", "noise"]
    assert [row["name"] for row in result["variants"]] == names
    victims = result["victims"]
    assert victims["names"] == ["ppo", "dqn", "slow"]
    for row in result["variants"]:
        first, dqn, slow = victims["channels"][row["name"]]
        assert -row["mean"] == pytest.approx(first["mean_return"][0], rel=1e-5)
        for value, low, high in (*first.values(), *slow.values(), *dqn.values()):
            assert 8 <= low <= value <= high
    _, *hand_written = (victims["channels"][name][2] for name in names)
    assert len({each["mean_return"][0] for each in hand_written}) > 1  # all hear something else
    assert {path.name for path in (directory / "figures").iterdir()} >= {
        "messages.png", "networks.png", "victims.png"
    }  # fmt: skip
    _, about = checkpoint.load_tree(directory / "meta_params")
    config = yaml.safe_load((directory / "config.yaml").read_text())["config"]
    assert (about["role"], about["learner"]) == ("adversary", "ppo")
    assert about["channel"] == config["channel"]


def test_other_victims_are_built_from_what_is_different():
    study = study_of(
        evaluation={"victims": {"dqn": DQN, "wide": {"train": {"hidden_sizes": [16]}}}}
    )
    study.check()
    first, dqn, wide = all_victims(study.settings)
    assert (first.learner, dqn.learner, wide.learner) == ("ppo", "dqn", "ppo")
    assert dqn.train.total_timesteps == 80
    assert wide.train.hidden_sizes == (16,)
    assert wide.train.num_steps == first.train.num_steps == 32
