import jax
import pytest

import metaevo
from metaevo.config import ConfigError
from metaevo.parts import learners
from purerl import sac
from purerl.parts import losses
from purerl.types import LearnerEntry


def make(config, env, **slots):
    return sac.SAC(config, env, **slots)


OWN = LearnerEntry(sac.Config, sac.Hyperparams, make, sac.SLOTS)


def test_as_an_object_it_is_a_problem():
    problem = metaevo.LearnerProblem(
        OWN, metaevo.parts.ValueLossNetwork((4,)), ["Pendulum-v1"],
        fitness={"mean_return": 0, "reward_per_step": 1},
    )  # fmt: skip
    key = jax.random.key(0)
    assert jax.eval_shape(problem.evaluate, key, problem.init(key), 0).fitness.shape == ()


def test_objects_of_purerl_keep_their_names():
    assert learners.name_of(learners.find("ppo")) == "ppo"
    assert learners.name_of(sac.LEARNER) == "sac"
    assert learners.name_of(OWN) == f"{__name__}:OWN"
    assert learners.find(f"{__name__}:OWN") is OWN


def test_an_entry_with_an_unknown_function_is_refused():
    with pytest.raises(ValueError, match=r"'value_loss'.*'square' must be one of squared"):
        losses.VALUE_LOSS.comparing("square")
    wrong = OWN._replace(slots={"value_loss": ("squared",)})
    with pytest.raises(ConfigError, match=r"slots: must be a tuple of purerl\.types\.Slot"):
        metaevo.LearnerProblem(wrong, "value_loss", ["Pendulum-v1"])
    with pytest.raises(ConfigError, match=r"purerl\.types\.LearnerEntry"):
        metaevo.LearnerProblem(sac, "value_loss", ["Pendulum-v1"])
