"""Cheap talk: what a candidate is judged by, whole runs by the command, and what is refused."""

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
from metaevo.studies.games.cheap_talk import CheapTalkStudy
from metaevo.studies.games.settings import CheapTalkSettings
from metaevo.studies.games.victims import all_victims
from purerl import envs, ppo
from purerl.envs.talking import Talking, TalkParams

DQN = {
    "learner": "dqn",
    "train": {
        "total_timesteps": 80, "num_steps": 10, "num_envs": 2, "batch_size": 16,
        "learning_starts": 20,
    },
}  # fmt: skip
SMALL = {
    "study": "cheap_talk",
    "channel": {"hidden_sizes": [8], "scale": 3.0},
    "train": {
        "total_timesteps": 256, "num_envs": 2, "num_steps": 32, "update_epochs": 1,
        "num_minibatches": 2, "hidden_sizes": [8],
    },
    "strategy": {"population_size": 4, "sigma": 0.1},
    "evolution": {
        "generations": 2, "validation_every": 1, "validation_seeds": 2, "num_devices": 1,
    },
    "evaluation": {
        "seeds": 4, "victims": {"slow": {"hyperparams": {"learning_rate": 0.0}}, "dqn": DQN}
    },
    "run": {"checkpoint_every": 1},
}  # fmt: skip


def merged(base, changes):
    found = dict(base)
    for key, value in changes.items():
        found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
    return found


def study_of(**changes):
    raw = merged(SMALL, changes)
    return CheapTalkStudy(from_dict(CheapTalkSettings.for_learner(raw), raw))


def trained(problem, key, say):
    """A victim that is trained directly, and what it earned in every update."""
    settings = study_of().settings
    env, params = envs.make("CartPole-v1")
    talking = Talking(env, lambda _, obs: say(obs), 2)
    learner = ppo.PPO(settings.train, talking)
    hyperparams = settings.hyperparams
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
    layers = weights["params"]

    def say(obs):
        (hidden,) = layers["Torso_0"].values()
        x = jnp.maximum(obs @ hidden["kernel"] + hidden["bias"], 0)
        return jnp.tanh(x @ layers["out"]["kernel"] + layers["out"]["bias"])

    episodes = trained(adversary, key, say)
    expected = episodes.returns.sum() / episodes.episodes.sum()
    np.testing.assert_allclose(-found.fitness, expected, rtol=1e-5)
    np.testing.assert_allclose(found.metrics["victim_mean_return"], expected, rtol=1e-5)
    last = episodes.returns[-1:].sum() / episodes.episodes[-1:].sum()
    assert len(episodes.returns) == 4
    np.testing.assert_allclose(found.metrics["victim_last_quarter"], last, rtol=1e-5)


def run(tmp_path, *argv, **changes):
    """Run the command with small settings; its exit code."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(merged(SMALL, changes)))
    return main(["--config", str(config), *argv])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("talk")
    assert run(path, "--run-dir", str(path / "run")) == 0
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
            assert all(np.isnan([low, value, high])) or 8 <= low <= value <= high
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


REFUSED = {
    "width 0": ({"channel": {"width": 0}}, "channel.width = 0: must be"),
    "no scale": ({"channel": {"scale": 0}}, "channel.scale = 0: must be"),
    "no layers": ({"channel": {"hidden_sizes": []}}, "channel.hidden_sizes"),
    "a role": ({"role": "friend"}, "role = 'friend': must be.*adversary"),
    "numbers of states": (
        {"learner": "q_learning", "task": {"env": "GridWorld"},
         "train": {"total_timesteps": 256, "num_steps": 32}},
        "learner = 'q_learning' sees numbers of states.*must be one of ppo, dqn, lpg",
    ),
    "images": (
        {"task": {"env": "Breakout-MinAtar"}},
        r"task.env: .*images of shape \(10, 10, 4\).*appended to a vector",
    ),
    "several environments": (
        {"task": {"env": ["CartPole-v1", "Acrobot-v1"]}}, "a channel is for one environment"
    ),
    "a distribution": ({"task": {"env": "GridWorlds"}}, "GridWorlds is a distribution of tasks"),
    "an unknown victim": (
        {"evaluation": {"victims": {"sac": {"learner": "sac"}}}},
        "evaluation.victims.sac: learner = 'sac' is not known",
    ),
    "a victim's typo": (
        {"evaluation": {"victims": {"fast": {"hyperparams": {"learning_rat": 1}}}}},
        "evaluation.victims.fast: .*learning_rat",
    ),
    "a victim's name": (
        {"evaluation": {"victims": {"ppo": {}}}}, "evaluation.victims.ppo: it needs a name of its"
    ),
    "a component": ({"evolve": "value_loss"}, "unknown key 'evolve'"),
    "gradients": (
        {"strategy": {"algorithm": "meta_gradient"}}, "meta_gradient.*not differentiable"
    ),
    "misspelt": ({"study": "cheep_talk"}, r"did you mean cheap_talk\?"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_clear_line(name, tmp_path, capsys):
    changes, message = REFUSED[name]
    raw = merged(SMALL, changes)
    if "learner" in changes:
        raw["train"] = changes["train"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(SystemExit) as stopped:
        main(["--config", str(tmp_path / "config.yaml"), "--run-dir", str(tmp_path / "run")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert "\n" not in error
    assert re.search(message, error), error
    assert not (tmp_path / "run").exists()
