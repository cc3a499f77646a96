"""Learned optimizers: the arguments that they get, and learners that they fit."""

import jax
import optax
import pytest

from metaevo.components import discovery, filling, parts
from metaevo.components import open as open_component
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory
from purerl import dqn, envs, ppo
from purerl.learners import LEARNERS
from tests.metaevo.components.test_optimizer import drawn
from tests.metaevo.toy import TINY

TINY_DQN = dqn.Config(
    total_timesteps=128, num_envs=2, num_steps=16, train_interval=4, learning_starts=16,
    buffer_size=64, batch_size=4, hidden_sizes=(4,),
)  # fmt: skip


@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_learners_pass_the_registered_extra_arguments(learner):
    seen = {}

    def make_optimizer(meta_params, context):
        def update(updates, state, params=None, **told):
            seen.update(told)
            return updates, state

        return optax.GradientTransformationExtraArgs(lambda params: (), update)

    env, env_params = envs.make("CartPole-v1")
    make_train, config = {"ppo": (ppo.make_train, TINY), "dqn": (dqn.make_train, TINY_DQN)}[learner]
    train = make_train(config, env, make_optimizer=make_optimizer)
    jax.eval_shape(train, jax.random.key(0), LEARNERS[learner].hyperparams(), None, env_params)
    assert {name for name, value in seen.items() if value is not None} == LEARNERS[learner].told


def test_an_optimizer_that_needs_an_argument_its_learner_lacks(tmp_path):
    evolved = parts.make("open", open_component.Config())
    meta_params = jax.device_get(drawn(open_component.make(open_component.Config())))
    for name in ("ppo", "dqn", None):  # earlier versions did not save the learner
        run = RunDirectory.create(tmp_path / str(name), "test")
        discovery.save(run, evolved, meta_params, 7, name)
        filling.fill("make_optimizer", str(run.path), "ppo")
        if name != "ppo":
            filling.fill("make_optimizer", str(run.path), "dqn")
    with pytest.raises(ConfigError, match=r"'dqn' does not tell it: epoch$"):
        filling.fill("make_optimizer", str(tmp_path / "ppo"), "dqn")
