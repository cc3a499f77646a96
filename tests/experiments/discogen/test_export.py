import importlib.util
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metaevo
from experiments.discogen import glue, modules
from experiments.discogen.__main__ import main
from experiments.discogen.source import Source
from metaevo import parts
from purerl import envs, ppo
from purerl.parts import losses
from purerl.parts.step_targets import STEP_INPUTS
from purerl.types import Rollout

CONFIG = {
    "NUM_ENVS": 4, "NUM_STEPS": 8, "TOTAL_TIMESTEPS": 320.0, "UPDATE_EPOCHS": 2,
    "NUM_MINIBATCHES": 2, "GAMMA": 0.97, "GAE_LAMBDA": 0.9, "CLIP_EPS": 0.2, "ENT_COEF": 0.01,
    "VF_COEF": 0.5, "MAX_GRAD_NORM": 0.5,
}  # fmt: skip
SIZES = ppo.Config(320, num_envs=4, update_epochs=2, num_minibatches=2, num_steps=8)
SETTINGS = ppo.Hyperparams(learning_rate=0.01, final_learning_rate=0.0, gamma=0.97, gae_lambda=0.9)
UPDATE = 3
"""Of 10."""


def formula(slot, expression, gives="value", **constants):
    return parts.Formula(slot, expression, constants, gives=gives)


def program(slot, start, gives="value", inputs=()):
    return parts.Program(slot=slot, start=(start,), gives=gives, length=16, inputs=inputs)


LOSSES = [
    "apa", "dpo", "huber", "zoo:ppo-apa",
    formula("policy_loss", "-minimum(ratio * advantage, clip(ratio, a, 1.2) * advantage)", a=0.8),
    formula("value_loss", "error * (1 + c * progress) + abs(change)**1.5 / 3", "slope", c=0.5),
    program("policy_loss", "where(advantage > length, exp(ratio) / advantage, log_ratio**2)"),
    program("value_loss", "error / (1 + abs(change)) + sqrt(error)", "slope"),
    parts.Drift(hidden_size=4, temporal=True),
    parts.ValueLossNetwork(hidden_sizes=(4,), temporal=True, form="additive"),
]  # fmt: skip
OPTIMIZERS = [
    "adam", "lion", "muon", "schedule_free", "zoo:ppo-optimizer",
    formula("make_optimizer", "mean_9 * (c + progress) - 0.1 * value * policy", c=0.5),
    parts.LearnedOptimizer(hidden_size=4, memory_size=2, start="random"),
]  # fmt: skip
TARGETS = [
    "v_trace", "n_step",
    formula("targets", "delta + gamma * c * next_advantage + 0.1 * delta_2 * progress", c=0.8),
    program("targets", "delta + tanh(next_advantage) / value", inputs=STEP_INPUTS[:5]),
    parts.LearnedTargets(hidden_size=4, temporal=True),
]  # fmt: skip


def saved(rule, folder):
    if isinstance(rule, str):
        return rule
    leaves, tree = jax.tree.flatten(rule.init(jax.random.key(1)))
    if not isinstance(rule, parts.Program):
        waves = [jnp.cos(1.0 + jnp.arange(leaf.size)).reshape(leaf.shape) for leaf in leaves]
        leaves = [leaf + 0.3 * wave for leaf, wave in zip(leaves, waves, strict=True)]
    metaevo.save(folder / "rule", rule, jax.tree.unflatten(tree, leaves))
    return str(folder / "rule")


def exported(rule, folder):
    """Return the slot of a rule, its function and meta-parameters, and its module, imported."""
    reference = saved(rule, folder)
    ((slot, (function, meta_params)),) = modules.read(reference).items()
    paths = modules.export(reference, folder / "modules")
    (path,) = (path for path in paths if path.suffix == ".py")
    assert not re.search(r"(import|from) (metaevo|purerl|experiments)", path.read_text())
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return slot, function, meta_params, module


@pytest.fixture(scope="module")
def trained():
    learner = ppo.PPO(SIZES, envs.make("CartPole-v1")[0], value_loss=losses.clipped_squared)
    env_params = envs.make("CartPole-v1")[1]
    state = jax.jit(learner.init)(jax.random.key(0), SETTINGS, None, env_params)
    state = state.replace(update=jnp.int32(UPDATE))
    context = learner.context(state, SETTINGS)
    state, transitions, _ = jax.jit(learner.collect)(state, env_params)
    _, batch = jax.jit(lambda *given: learner.make_batch(*given, context, None))(state, transitions)
    moved = jax.tree.map(
        lambda x: x + 0.1 * jnp.sin(jnp.arange(x.size)).reshape(x.shape), state.params
    )
    return learner, moved, batch, context


def is_close(found, wanted):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(
            one, other, rtol=1e-5, atol=1e-5 * float(jnp.max(jnp.abs(other)))
        )


@pytest.mark.parametrize("rule", LOSSES, ids=repr)
def test_gradients_of_losses_are_equal(rule, trained, tmp_path):
    learner, params, batch, context = trained
    slot, function, meta_params, module = exported(rule, tmp_path)
    learner = ppo.PPO(SIZES, learner.env, **{"value_loss": losses.clipped_squared, slot: function})
    ours = jax.grad(lambda params: learner.loss(params, batch, context, meta_params)[0])

    def apply(params, obs):
        policy, value, _ = learner.network.apply(params, obs)
        return policy, value

    step = UPDATE * SIZES.num_steps + 1 + jnp.arange(SIZES.num_steps).repeat(SIZES.num_envs)
    theirs = SimpleNamespace(
        **batch.transition._asdict(), value=batch.value, info={"timestep": step}
    )
    given = theirs, batch.advantage, batch.target, SimpleNamespace(apply=apply), CONFIG
    exported_one = jax.grad(lambda params: module.loss_actor_and_critic(params, *given)[0])
    is_close(*jax.jit(lambda params: (exported_one(params), ours(params)))(params))


class Square(metaevo.Part):
    def apply(self, meta_params, context, error):
        return self.shape(error)

    def shape(self, error):
        return error**2


class Absolute(Square):
    def shape(self, error):
        return abs(error)


def test_a_part_keeps_its_methods_next_to_one_of_its_base():
    source = Source()
    found = [source.part(Absolute()), source.part(Square())]
    exec(f"from types import SimpleNamespace\n{source.text}", space := {})
    assert [eval(each, space).apply(None, None, 3.0) for each in found] == [3.0, 9.0]


@pytest.mark.parametrize("rule", OPTIMIZERS, ids=repr)
def test_steps_of_optimizers_are_equal(rule, trained, tmp_path):
    _, params, _, context = trained
    _, make, meta_params, module = exported(rule, tmp_path)
    per_update = CONFIG["NUM_MINIBATCHES"] * CONFIG["UPDATE_EPOCHS"]
    theirs = optax.chain(
        module.make_optimizer(CONFIG)(),
        optax.scale_by_schedule(lambda count: -0.01 * (1.0 - (count // per_update) / 10)),
    )
    ours_params, their_params = params, glue.renamed(params)
    context = context.replace(progress=0.0)
    ours = make(meta_params, context).init(params)
    state = theirs.init(their_params)
    for step in range(6):
        context = context.replace(progress=(step // per_update) / 10)
        gradient = jax.tree.map(lambda x, step=step: jnp.cos(x * (7.0 + step)), params)
        optimizer = optax.with_extra_args_support(make(meta_params, context))
        updates, ours = optimizer.update(gradient, ours, ours_params, context=context)
        ours_params = optax.apply_updates(ours_params, updates)
        updates, state = theirs.update(glue.renamed(gradient), state, their_params)
        their_params = optax.apply_updates(their_params, updates)
        moved = jax.tree.map(jnp.subtract, glue.named(their_params), params)
        is_close(moved, jax.tree.map(jnp.subtract, ours_params, params))


@pytest.mark.parametrize("rule", TARGETS, ids=repr)
def test_targets_are_equal(rule, trained, tmp_path):
    _, function, meta_params, module = exported(rule, tmp_path)
    key, context = jax.random.split(jax.random.key(3), 5), trained[-1]
    reward, value, log_prob = (jax.random.normal(each, (8, 4)) for each in key[:3])
    done, last = jax.random.bernoulli(key[3], 0.2, (8, 4)), jax.random.normal(key[4], (4,))
    next_value = jnp.concatenate([value[1:], last[None]])
    never = jnp.zeros_like(done)
    rollout = Rollout(reward, value, next_value, done, never, log_prob)
    step = UPDATE * 8 + 1 + jnp.broadcast_to(jnp.arange(8)[:, None], (8, 4))
    theirs = SimpleNamespace(
        reward=reward, value=value, done=done, log_prob=log_prob, info={"timestep": step}
    )
    found = module.get_targets(theirs, last, CONFIG)
    is_close(found, function(meta_params, context, rollout))


OWN = """
import jax.numpy as jnp
import metaevo

class Noisy(metaevo.Part):
    slot = "policy_loss"

    def apply(self, meta_params, context, log_ratio, advantage):
        return scaled(context.minibatch) * log_ratio * advantage

def scaled(x):
    return 2.0 * x
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("linear --to new", ["linear fills schedule", "loss (policy_loss and value_loss)"]),
        ("zoo:lpg-tasks --to new", ["zoo:lpg-tasks fills update_rule"]),
        ("zoo:nothing --to new", ["'zoo:nothing' is not in the zoo"]),
        ("nothing --to new", ["nothing: must be a run's directory, zoo:NAME"]),
        ("apa --to .", ["--to .: must be new"]),
        ("apa --modules optim --to new", ["--modules: must have loss, which apa fills"]),
        ("own.py:Noisy --code own.py --to new", ["reads context.minibatch, which"]),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(line, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(SystemExit) as error:
        main(["export", *line.split()])
    message = str(error.value.code)
    assert message.startswith("error: ")
    assert "\n" not in message
    assert all(each in message for each in words), message
    assert not (tmp_path / "new").exists()


def test_modules_that_a_rule_does_not_fill_are_their_own_again(tmp_path):
    names = ["loss", "optim", "targets"]
    main(["export", "apa", "--modules", *names, "--to", str(tmp_path / "all")])
    assert sorted(each.stem for each in (tmp_path / "all").iterdir()) == names
