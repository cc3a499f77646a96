"""Their harness with exported modules learns what ours learns with the rules."""

import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metaevo
from experiments.discogen import modules
from purerl import envs, ppo
from purerl.parts import losses
from purerl.types import Context, Rollout, Transition

PYTHON = Path(".venv-discogen/bin/python").absolute()
STEPS = 3
RATE = 0.003
SIZES = {"num_envs": 4, "num_steps": 8, "update_epochs": 1, "num_minibatches": 1}
THEIRS = """
import sys
import jax, jax.numpy as jnp, numpy as np, optax
from types import SimpleNamespace
from experiments.discogen.harness import make_task

given = dict(np.load(sys.argv[1]))
make_task("Breakout", sys.argv[2])
from activation import get_activation
from config import config
from loss import loss_actor_and_critic
from networks import ActorCritic
from optim import make_optimizer
from schedule import make_schedule_fn
from targets import get_targets

config |= dict(NUM_ENVS=4, NUM_STEPS=8, UPDATE_EPOCHS=1, NUM_MINIBATCHES=1, TOTAL_TIMESTEPS=320.0)
config |= dict(NUM_UPDATES=10)
network = ActorCritic(3, config=config, activation=get_activation(config))
params = network.init(jax.random.PRNGKey(0), given["obs"][0, 0])
leaves, tree = jax.tree.flatten(params)
params = jax.tree.unflatten(tree, [jnp.asarray(given[f"params{i}"]) for i in range(len(leaves))])
columns = {name: jnp.asarray(given[name]) for name in
           ("obs", "action", "value", "log_prob", "reward", "done")}
step = 1 + jnp.broadcast_to(jnp.arange(8)[:, None], (8, 4))
advantage, target = get_targets(
    SimpleNamespace(**columns, info={"timestep": step}), jnp.asarray(given["last"]), config)
flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in columns.items()}
batch = SimpleNamespace(**flat, info={"timestep": step.reshape(-1)})
schedule = optax.scale_by_schedule(make_schedule_fn(config, -0.003))
tx = optax.chain(make_optimizer(config)(), schedule)
state, found = tx.init(params), {"advantage": advantage, "target": target}
for i in range(3):
    gradient, _ = jax.grad(loss_actor_and_critic, has_aux=True)(
        params, batch, advantage.reshape(-1), target.reshape(-1), network, config)
    updates, state = tx.update(gradient, state, params)
    params = optax.apply_updates(params, updates)
    found |= {f"params{i}": leaf for i, leaf in enumerate(jax.tree.leaves(params))}
np.savez(sys.argv[3], **found)
"""


def leaves(params):
    """Return the arrays of a network in the order of their layers."""
    torsos = [params["params"][name] for name in ("actor_torso", "critic_torso")]
    heads = [params["params"][name] for name in ("policy_head", "value_head")]
    each = zip(torsos, heads, strict=True)
    layers = [layer for torso, head in each for layer in (torso["Dense_0"], torso["Dense_1"], head)]
    arrays = [layer[name] for layer in layers for name in ("bias", "kernel")]
    return {f"params{index}": array for index, array in enumerate(arrays)}


@pytest.mark.long
@pytest.mark.skipif(not PYTHON.exists(), reason="DiscoGen is not installed: make discogen")
def test_their_harness_takes_our_steps(tmp_path):
    targets = metaevo.parts.LearnedTargets(hidden_size=4)
    meta_params = jax.tree.map(lambda x: x + 0.2, targets.init(jax.random.key(0)))
    metaevo.save(tmp_path / "targets", targets, meta_params)
    rules = "zoo:ppo-drift", "zoo:ppo-optimizer", str(tmp_path / "targets")
    slots, folder = {}, tmp_path / "modules"
    folder.mkdir()
    for index, reference in enumerate(rules):
        ((slot, found),) = modules.read(reference).items()
        slots[slot] = found
        for path in modules.export(reference, tmp_path / str(index)):
            path.rename(folder / path.name)

    env = envs.make("Breakout-MinAtar", observations="flat")[0]
    config = ppo.Config(320, **SIZES, activation="relu")
    functions = {
        slot: lambda _, *each, function=function, own=own: function(own, *each)
        for slot, (function, own) in slots.items()
    }
    learner = ppo.PPO(config, env, value_loss=losses.clipped_squared, **functions)
    keys = jax.random.split(jax.random.key(1), 8)
    obs = jax.random.bernoulli(keys[0], 0.2, (8, 4, 400)).astype(jnp.float32)
    params = learner.network.init(keys[1], obs[0])
    params = jax.tree.map(lambda x: x + 0.02 * jnp.cos(jnp.arange(x.size)).reshape(x.shape), params)
    reward, value = (jax.random.normal(key, (8, 4)) for key in keys[2:4])
    last, log_prob = jax.random.normal(keys[4], (4,)), -1.1 + 0.1 * value
    done = jax.random.bernoulli(keys[5], 0.2, (8, 4))
    action = jax.random.randint(keys[6], (8, 4), 0, 3)

    given = {"obs": obs, "action": action, "value": value, "log_prob": log_prob, "reward": reward}
    np.savez(tmp_path / "given.npz", **given, done=done, last=last, **leaves(params))
    command = [PYTHON, "-c", THEIRS, tmp_path / "given.npz", folder, tmp_path / "found.npz"]
    environment = {"PYTHONPATH": str(Path.cwd()), "JAX_PLATFORMS": "cpu"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=600)
    found = np.load(tmp_path / "found.npz")

    settings = ppo.Hyperparams(learning_rate=RATE, final_learning_rate=0.0)
    context = Context(settings, num_updates=10)
    next_value, never = jnp.concatenate([value[1:], last[None]]), jnp.zeros_like(done)
    rollout = Rollout(reward, value, next_value, done, never, log_prob)
    advantage, target = learner.targets(None, context, rollout)
    np.testing.assert_allclose(found["advantage"], advantage, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["target"], target, rtol=1e-5, atol=1e-5)
    transition = Transition(obs, action, log_prob, reward, done, never, obs)
    batch = ppo.Batch(transition, value, advantage, target)
    batch = jax.tree.map(lambda x: x.reshape(32, *x.shape[2:]), batch)
    state = None
    for step in range(STEPS):
        context = context.replace(progress=step / 10)
        gradient, _ = jax.grad(learner.loss, has_aux=True)(params, batch, context, None)
        optimizer = learner.make_optimizer(None, context)
        state = optimizer.init(params) if state is None else state
        updates, state = optimizer.update(gradient, state, params, context=context)
        params = optax.apply_updates(params, updates)
    for name, leaf in leaves(params).items():
        np.testing.assert_allclose(found[name], leaf, rtol=1e-5, atol=1e-6, err_msg=name)
