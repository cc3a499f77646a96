"""Cheap talk: the fitness of a candidate, and whole runs by the command."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import metaevo
from metaevo.evolution.problem import TASK
from metaevo.runs import checkpoint
from metaevo.tasks import sampling
from purerl import envs, ppo
from purerl.envs.talking import Talking, TalkParams
from tests.metaevo.studies.games import TALK, run, study_of
from tests.purerl.messages import message


def trained(key, weights, *, length, learning_rate):
    """The episodes of a victim that is trained directly."""
    settings = study_of(TALK).settings
    env, params = envs.make("CartPole-v1", length=length)
    talking = Talking(env, lambda _, obs: message(weights, obs, jnp), 2)
    learner = ppo.PPO(settings.train, talking)
    hyperparams = settings.hyperparams.replace(learning_rate=learning_rate)
    result = jax.jit(learner.train)(key, hyperparams, None, TalkParams(params, None, 3.0))
    return jax.tree.map(np.asarray, result.episodes)


SAMPLE = {
    "env_params.length": {"uniform": [0.2, 2.0]},
    "hyperparams.learning_rate": {"log_uniform": [1e-3, 1e-1]},
}


@pytest.mark.long
def test_the_fitness_of_an_adversary_is_minus_the_return_of_its_victim():
    """Against a victim that is trained directly, with the parameters that are drawn for it."""
    adversary, ally = (
        study_of(TALK, sample=SAMPLE).problem({}),
        study_of(TALK, role="ally").problem({}),
    )
    weights = adversary.init(jax.random.key(1))
    evaluate, lengths = jax.jit(adversary.evaluate), set()
    for seed in (5, 6):
        key = jax.random.key(seed)
        values = sampling.draw_all(adversary.sample, jax.random.fold_in(key, TASK))
        lengths.add(float(values["env_params.length"]))
        episodes = trained(
            key,
            weights,
            length=float(values["env_params.length"]),
            learning_rate=values["hyperparams.learning_rate"],
        )
        found = evaluate(key, weights, 0)
        expected = episodes.returns.sum() / episodes.episodes.sum()
        np.testing.assert_allclose(-found.fitness, expected, rtol=1e-4)
        np.testing.assert_allclose(found.metrics["victim_mean_return"], expected, rtol=1e-4)
        last = episodes.returns[-1:].sum() / episodes.episodes[-1:].sum()
        np.testing.assert_allclose(found.metrics["victim_last_quarter"], last, rtol=1e-4)
    assert len(lengths) == 2
    helped = jax.jit(ally.evaluate)(key, weights, 0)
    assert helped.fitness == helped.metrics["victim_mean_return"] > 0


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("talk")
    assert run(TALK, path) == 0
    return path / "run"


@pytest.mark.long
def test_every_channel_gets_the_same_fresh_victims(directory):
    scores = metaevo.Scores.load(directory / "scores.npz")
    names = ("learned", "silence", "constant", "random", "noise")
    assert scores.contenders == names
    pairs = json.loads((directory / "pairs.json").read_text())
    assert pairs["opponents"] == ["ppo", "dqn", "slow"]
    for name in names:
        first, dqn, slow = pairs["contenders"][name]
        assert -scores.held_out_of(name).mean() == pytest.approx(first["mean_return"][0], rel=1e-5)
        for value, low, high in (*first.values(), *slow.values(), *dqn.values()):
            assert 8 <= low <= value <= high
    _, *hand_written = (pairs["contenders"][name][2] for name in names)
    assert len({each["mean_return"][0] for each in hand_written}) > 1  # all hear something else
    figures = {path.name for path in (directory / "figures").iterdir()}
    assert figures >= {"messages.png", "victims.png"}
    _, about = checkpoint.load_tree(directory / "meta_params.npz")
    config = yaml.safe_load((directory / "config.yaml").read_text())["config"]
    assert (about["role"], about["learner"]) == ("adversary", "ppo")
    assert about["channel"] == config["channel"]
