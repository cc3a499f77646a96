"""Learned optimizers: trainings, ablations, and learners that they fit."""

import jax
import numpy as np
import optax
import pytest

from metaevo.components import discovery, filling, optimizer, optimizers, parts, signals
from metaevo.components import open as open_component
from metaevo.components.component import LEARNED, Found
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
MODULES = {"optimizer": optimizer, "open": open_component}


def learner_of(name, make_optimizer):
    env, _ = envs.make("CartPole-v1")
    return (
        ppo.PPO(TINY, env, make_optimizer=make_optimizer)
        if name == "ppo"
        else dqn.DQN(TINY_DQN, env, make_optimizer=make_optimizer)
    )


def trained(name, make_optimizer, meta_params, **settings):
    learner = learner_of(name, make_optimizer)
    hyperparams = LEARNERS[name].hyperparams(**settings)
    return jax.jit(learner.train)(
        jax.random.key(0), hyperparams, meta_params, learner.env.default_params
    )


@pytest.mark.long
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
@pytest.mark.parametrize("name", MODULES)
def test_they_train_agents(name, learner):
    module = MODULES[name]
    made = module.make(module.Config())
    meta_params = jax.jit(made.init)(jax.random.key(0))
    result = trained(learner, made.apply, meta_params)
    weights = jax.tree.leaves(result.state.params)
    assert all(np.isfinite(leaf).all() for leaf in weights)
    _, *steps = result.metrics["value_error"]
    assert len(set(map(float, steps))) == len(steps)


@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_learners_tell_what_the_registry_says(learner):
    seen = {}

    def make_optimizer(meta_params, context):
        def update(updates, state, params=None, **told):
            seen.update(told)
            return updates, state

        return optax.GradientTransformationExtraArgs(lambda params: (), update)

    made = learner_of(learner, make_optimizer)
    hyperparams = LEARNERS[learner].hyperparams()
    jax.eval_shape(made.train, jax.random.key(0), hyperparams, None, made.env.default_params)
    assert {name for name, value in seen.items() if value is not None} == LEARNERS[learner].told


def found(name, learner="ppo"):
    module = MODULES[name]
    config = optimizer.Config(memory_size=2) if name == "optimizer" else module.Config()
    made = module.make(config)
    entry = LEARNERS[learner]
    meta_params = jax.device_get(drawn(made))
    return Found(made.apply, meta_params, entry, entry.hyperparams(), lambda: np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("optimizer", [*signals.FEATURES, *signals.TIMES, "memory"]),
        pytest.param("open", open_component.INPUTS, marks=pytest.mark.long),
    ],
)
def test_an_ablation_takes_away_one_input(name, inputs):
    it = found(name)
    (ablation,) = MODULES[name].ablations(it)
    first, *rows = ablation.rows
    assert first.function == LEARNED
    assert [row.labels["without"] for row in rows] == list(inputs)
    for row in rows:
        before, after = (
            jax.flatten_util.ravel_pytree(x)[0] for x in (it.meta_params, row.meta_params)
        )
        changed = before != after
        assert changed.any()
        assert (after[changed] == 0).all()
    result = {ablation.key: [{**row.labels, "iqm": 1.0, "interval": [0.5, 1.5]} for row in rows]}
    (table,) = optimizers.tables(result, it.learner)
    assert len(table.rows) == len(rows)


@pytest.fixture
def saved(tmp_path):
    def save(evolved_for):
        run = RunDirectory.create(
            tmp_path / f"{evolved_for}_{len(list(tmp_path.iterdir()))}", "test"
        )
        evolved = parts.make("open", open_component.Config())
        meta_params = jax.device_get(drawn(open_component.make(open_component.Config())))
        discovery.save(run, evolved, meta_params, 7, evolved_for)
        return run

    return save


def test_an_optimizer_that_needs_what_a_learner_does_not_tell(saved):
    run = saved("ppo")
    message = r"open was evolved for ppo, and learner = 'dqn' does not tell it: epoch$"
    with pytest.raises(ConfigError, match=message):
        filling.fill("make_optimizer", str(run.path), "dqn")
    filling.fill("make_optimizer", str(run.path), "ppo")
    for path in (saved("dqn").path, saved(None).path):  # earlier versions did not say
        for learner in ("ppo", "dqn"):
            filling.fill("make_optimizer", str(path), learner)
