"""A custom learner, examples/sac.py: trained, evolved and compared."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import metaevo
from examples import sac
from metaevo.__main__ import main
from metaevo.config import ConfigError, from_dict
from metaevo.parts import learners
from metaevo.training.settings import training_class
from purerl.parts import losses

FILE = Path(__file__).parents[3] / "examples" / "sac.py"
NAME = f"{FILE}:sac"
TINY = {
    "total_timesteps": 64,
    "num_envs": 4,
    "num_steps": 16,
    "train_interval": 8,
    "learning_starts": 32,
    "batch_size": 16,
    "hidden_sizes": [8],
}
OF_RUN = ["--learner", NAME, "--task.env", "Pendulum-v1"]
FLAGS = [part for key, value in TINY.items() for part in (f"--train.{key}", json.dumps(value))]


@pytest.mark.long
def test_the_command_trains_it(tmp_path):
    path = tmp_path / "run"
    flags = ["--seeds", "2", "--value_loss", "huber", "--evaluation.episodes", "1"]
    assert main(["train", *OF_RUN, *FLAGS, *flags, "--run-dir", str(path)]) == 0
    trained = metaevo.load_training(path)
    assert type(trained.learner).__name__ == "SAC"
    assert jnp.isfinite(trained.policies["params"]["policy_head"]["kernel"]).all()


def test_as_an_object_it_is_a_problem():
    problem = metaevo.LearnerProblem(
        sac.sac, metaevo.parts.ValueLossNetwork((4,)), ["Pendulum-v1"], train=TINY,
        fitness={"mean_return": 0, "reward_per_step": 1},
    )  # fmt: skip
    key = jax.random.key(0)
    assert jax.eval_shape(problem.evaluate, key, problem.init(key), 0).fitness.shape == ()


def test_objects_of_purerl_keep_their_names():
    assert learners.name_of(learners.find("ppo")) == "ppo"
    assert learners.name_of(sac.sac) == "examples.sac:sac"
    assert learners.find("examples.sac:sac") is sac.sac


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("poo", "learner = 'poo' is not known.*allowed: ppo, dqn"),
        (f"{FILE}:SAC", "must be a purerl.types.LearnerEntry"),
    ],
)
def test_bad_names_are_one_line(learner, message):
    raw = {"learner": learner}
    with pytest.raises(ConfigError, match=message) as raised:
        from_dict(training_class(raw), raw)
    assert "\n" not in str(raised.value)


def test_an_entry_with_an_unknown_function_is_refused():
    with pytest.raises(ValueError, match=r"'value_loss'.*'square' must be one of squared"):
        losses.VALUE_LOSS.comparing("square")
    wrong = sac.sac._replace(slots={"value_loss": ("squared",)})
    with pytest.raises(ConfigError, match=r"slots: must be a tuple of purerl\.types\.Slot"):
        metaevo.LearnerProblem(wrong, "value_loss", ["Pendulum-v1"])
    with pytest.raises(ConfigError, match=r"purerl\.types\.LearnerEntry"):
        metaevo.LearnerProblem(sac, "value_loss", ["Pendulum-v1"])
