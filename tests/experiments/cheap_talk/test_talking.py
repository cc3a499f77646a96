from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metaevo
from experiments.cheap_talk import talking
from experiments.cheap_talk.problem import CheapTalk, VictimConfig
from experiments.cheap_talk.talking import HAND_WRITTEN, Messenger, Talking, TalkParams
from metaevo.commands.evolve import main
from metaevo.config import load_yaml
from purerl import envs, ppo

KEY, WIDTH, SCALE, STEPS = jax.random.key(0), 3, 2.5, 300
MESSENGER = Messenger(WIDTH, SCALE, (16, 8))
WEIGHTS = MESSENGER.init(jax.random.key(1), 4)


def message(weights, obs, xp=np):
    """What a network says before it is scaled, by NumPy or by `jax.numpy`."""
    layers, x = weights["params"], obs
    for hidden in layers["Torso_0"].values():
        x = xp.maximum(x @ xp.asarray(hidden["kernel"], float) + xp.asarray(hidden["bias"]), 0)
    out = layers["out"]
    return xp.tanh(x @ xp.asarray(out["kernel"], float) + xp.asarray(out["bias"]))


@partial(jax.jit, static_argnums=0)
def play(env, env_params):
    """All that happens in a few episodes of random play with fixed keys."""

    def step(state, key):
        act_key, env_key = jax.random.split(key)
        action = jax.random.randint(act_key, (), 0, 2)
        obs, state, reward, terminated, truncated, info = env.step(
            env_key, state, action, env_params
        )
        return state, (obs, state, reward, terminated, truncated, info["final_observation"])

    obs, state = env.reset(KEY, env_params)
    _, seen = jax.lax.scan(step, state, jax.random.split(KEY, STEPS))
    return obs, seen


def test_messages_match_the_network_and_touch_nothing_else():
    """Also at a reset, and in the observation before one; all else is the same but for rounding."""
    env, params = envs.make("CartPole-v1", max_steps_in_episode=25)
    talking, heard = Talking(env, MESSENGER.message, WIDTH), TalkParams(params, WEIGHTS)
    first, seen = play(talking, heard)
    first_bare, bare = play(env, params)
    obs, _, _, terminated, truncated, final = seen
    jax.tree.map(np.testing.assert_array_equal, seen[2:5], bare[2:5])
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    jax.tree.map(close, seen[1], bare[1])
    assert terminated.any()
    assert truncated.any()
    pairs = (first[None], first_bare[None]), (obs, bare[0]), (final, bare[5])
    for each, expected in pairs:
        close(each[:, :4], expected)
        np.testing.assert_allclose(each[:, 4:], SCALE * message(WEIGHTS, expected), atol=1e-4)
    ended = np.asarray(terminated | truncated)
    assert np.any(np.asarray(final)[ended] != np.asarray(obs)[ended])
    assert talking.observation_space(heard).shape == first.shape == (4 + WIDTH,)


SPEAK = jax.jit(jax.vmap(MESSENGER.speak, (None, 0)))
OBS = np.asarray(jax.random.normal(jax.random.key(9), (2000, 4)))


def spoken(name, seed=0, obs=OBS):
    """What a hand-written channel says of observations [N, WIDTH], before it is scaled."""
    weights = talking.hand_written(jax.random.key(seed), WEIGHTS, HAND_WRITTEN.index(name))
    return np.asarray(SPEAK(weights, obs)) / SCALE


def test_hand_written_channels_match_their_names():
    assert not np.any(spoken("silence"))
    constant = spoken("constant")
    np.testing.assert_array_equal(constant, np.broadcast_to(constant[0], constant.shape))
    assert len(set(constant[0])) == WIDTH
    firsts = np.stack([spoken("constant", seed)[0] for seed in range(12)])
    assert firsts.min() < -0.7
    assert firsts.max() > 0.7
    random = spoken("random")
    assert np.all(random.std(axis=0) > 0.01)
    assert np.abs(random - spoken("random", 1)).max() > 0.1


def test_noise_is_uniform_and_a_function_of_the_observation():
    noise = spoken("noise")
    assert np.abs(noise.mean(axis=0)).max() < 0.06
    np.testing.assert_allclose(noise.std(axis=0), np.sqrt(1 / 3), atol=0.03)
    assert np.abs(np.corrcoef(OBS.T, noise.T)[:4, 4:]).max() < 0.08
    assert np.abs(np.corrcoef(noise.T) - np.eye(WIDTH)).max() < 0.08
    np.testing.assert_array_equal(spoken("noise"), noise)
    near = spoken("noise", obs=np.nextafter(OBS, np.float32(np.inf)))
    assert np.abs(np.corrcoef(near[:, 0], noise[:, 0])[0, 1]) < 0.08
    hot = spoken("noise", obs=np.tile(np.eye(4, dtype=np.float32), (500, 1)))
    assert len(np.unique(hot[:, 0])) == 4
    assert np.any(spoken("noise", 1) != noise)


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
