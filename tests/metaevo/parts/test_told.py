"""Learned optimizers: the arguments that they get, and learners that they fit."""

import jax
import optax
import pytest

from metaevo.config import ConfigError
from metaevo.parts import learners, resolve
from metaevo.parts.learners import part_class
from metaevo.parts.part import Parts
from metaevo.runs.run_directory import RunDirectory
from purerl import dqn, envs, ppo
from tests.metaevo.evolving import settings_of
from tests.metaevo.parts.test_optimizer import drawn
from tests.metaevo.toy import TINY

TINY_DQN = dqn.Config(
    total_timesteps=128, num_envs=2, num_steps=16, train_interval=4, learning_starts=16,
    buffer_size=64, batch_size=4, hidden_sizes=(4,),
)  # fmt: skip


OPEN = "experiments/published/open.py:Open"
"""needs the argument `epoch`"""
TOLD = {
    "ppo": {"progress", "frames", "key", "epoch", "minibatch", "dormancy"},
    "dqn": {"progress", "frames", "key", "minibatch", "dormancy"},
}


@pytest.mark.parametrize("learner", TOLD)
def test_learners_pass_the_extra_arguments_that_they_have(learner):
    seen = {}

    def make_optimizer(meta_params, context):
        def update(updates, state, params=None, **told):
            seen.update(told)
            return updates, state

        return optax.GradientTransformationExtraArgs(lambda params: (), update)

    env, env_params = envs.make("CartPole-v1")
    make_train, config = {"ppo": (ppo.make_train, TINY), "dqn": (dqn.make_train, TINY_DQN)}[learner]
    train = make_train(config, env, make_optimizer=make_optimizer)
    jax.eval_shape(train, jax.random.key(0), learners.find(learner).hyperparams(), None, env_params)
    assert set(seen) == TOLD[learner]


@pytest.mark.parametrize(
    ("evolve", "settings"),
    [({"evolve": OPEN}, {}), ({"evolve": "value_loss"}, {"make_optimizer": "RUN"})],
)
def test_an_optimizer_that_needs_an_argument_its_learner_lacks(evolve, settings, tmp_path):
    part = part_class(OPEN)()
    resolve.write(RunDirectory(tmp_path), Parts.single(part), drawn(part), 7)
    settings = {key: str(tmp_path) for key in settings}
    settings_of({**evolve, **settings, "learner": "ppo"}).build()
    where = f"evolve = '{OPEN}'" if not settings else "make_optimizer = "
    message = rf"^{where}.* fails in an update of dqn: TypeError: .*missing .* 'epoch'"
    with pytest.raises(ConfigError, match=message) as caught:
        settings_of({**evolve, **settings, "learner": "dqn"}).build()
    assert "\n" not in str(caught.value)
