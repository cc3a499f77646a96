"""What their modules are around a rule: text of files that import nothing of ours."""

IMPORTS = """from functools import reduce
from operator import getitem
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax"""

COMMON = '''
class Context(SimpleNamespace):
    """Settings and progress of training."""

    def replace(self, **changes):
        return Context(**{**vars(self), **changes})


def context_at(config, update, **others):
    """Return the context of an update."""
    total = int(config["TOTAL_TIMESTEPS"] // config["NUM_STEPS"] // config["NUM_ENVS"])
    return Context(
        hyperparams=settings_of(config),
        progress=update / total,
        num_updates=total,
        frames=update * config["NUM_STEPS"] * config["NUM_ENVS"],
        **others,
    )


def update_of(traj_batch, config):
    """Return the number of updates before a batch, by its environments' steps."""
    return (jnp.max(traj_batch.info["timestep"]) - 1) // config["NUM_STEPS"]
'''

ARRAYS = """with np.load(Path(__file__).resolve().with_suffix(".npz")) as _file:
    ARRAYS = {name: jnp.asarray(each) for name, each in _file.items()}"""

LOSS = '''
def loss_actor_and_critic(params, traj_batch, gae, targets, network, config):
    """Return the loss of a minibatch, and its parts."""
    context = context_at(config, update_of(traj_batch, config))
    pi, value = network.apply(params, traj_batch.obs)
    log_ratio = pi.log_prob(traj_batch.action) - traj_batch.log_prob
    advantage = (gae - gae.mean()) / (gae.std() + 1e-8)

    def mean_of(slot, *arguments):
        loss = jax.vmap(lambda *each: RULE[slot](META_PARAMS[slot], context, *each))
        return loss(*arguments).mean()

    actor = mean_of("policy_loss", log_ratio, advantage)
    critic = mean_of("value_loss", value, targets, traj_batch.value)
    entropy = pi.entropy().mean()
    total = actor + config["VF_COEF"] * critic - config["ENT_COEF"] * entropy
    return total, (critic, actor, entropy)
'''

TARGETS = '''
def get_targets(traj_batch, last_val, config):
    """Return advantages and value targets [T, N]."""
    context, value = context_at(config, update_of(traj_batch, config)), traj_batch.value
    rollout = purerl_types.Rollout(
        reward=traj_batch.reward,
        value=value,
        next_value=jnp.concatenate([value[1:], last_val[None]]),
        terminated=traj_batch.done,  # a truncated step has its last value in the reward
        truncated=jnp.zeros_like(traj_batch.done),
        log_prob=traj_batch.log_prob,
    )
    return tuple(RULE["targets"](META_PARAMS["targets"], context, rollout))
'''

BY_MOVES = '''
def by_moves(make):
    """Return an optimizer that sees the sum of its steps in place of the parameters."""

    def of_moves(meta_params, context):
        def init(params):
            moves = jax.tree.map(jnp.zeros_like, params)
            return moves, make(meta_params, context).init(moves)

        def update(gradients, state, params=None, *, context):
            moves, inner = state
            optimizer = make(meta_params, context)
            steps, inner = optimizer.update(gradients, inner, moves, context=context)
            return steps, (jax.tree.map(jnp.add, moves, steps), inner)

        return optax.GradientTransformationExtraArgs(init, update)

    return of_moves
'''
"""For optimizers that mix parameters with steps, whose learning rate they do not know."""

OPTIM = '''
PLACES = {
    "Dense_0": ("actor_torso", "Dense_0"),
    "Dense_1": ("actor_torso", "Dense_1"),
    "Dense_2": ("policy_head",),
    "Dense_3": ("critic_torso", "Dense_0"),
    "Dense_4": ("critic_torso", "Dense_1"),
    "Dense_5": ("value_head",),
}


def named(tree):
    """Return the layers of networks.py under names that tell which are the policy's."""
    found = {"actor_torso": {}, "critic_torso": {}}
    for name, layer in tree["params"].items():
        *torso, own = PLACES.get(name, (name,))
        (found[torso[0]] if torso else found)[own] = layer
    return {"params": found}


def renamed(tree):
    """Return named layers under the names of networks.py."""
    found = tree["params"]
    layers = {name: reduce(getitem, place, found) for name, place in PLACES.items()}
    return {"params": layers | {name: found[name] for name in found if name == "log_std"}}


def make_optimizer(config):
    """Return their function that makes the optimizer of raw gradients."""
    size, epochs = config["NUM_MINIBATCHES"], config["UPDATE_EPOCHS"]

    def optimizer_at(step):
        update, within = step // (size * epochs), step % (size * epochs)
        context = context_at(
            config,
            update,
            epoch=within // size / epochs,
            minibatch=within % size / size,
            num_epochs=epochs,
            num_minibatches=size,
        )
        optimizer = RULE["make_optimizer"](META_PARAMS["make_optimizer"], context)
        return optax.with_extra_args_support(optimizer), context

    def init(params):
        return jnp.int32(0), optimizer_at(jnp.int32(0))[0].init(named(params))

    def update(gradients, state, params=None):
        step, inner = state
        optimizer, context = optimizer_at(step)
        found, inner = optimizer.update(named(gradients), inner, named(params), context=context)
        left = 1.0 - context.progress * (1.0 - context.hyperparams.final_learning_rate)
        ascent = jax.tree.map(lambda each: -each / left, renamed(found))
        return ascent, (step + 1, inner)

    return lambda: optax.GradientTransformation(init, update)
'''

MODULES = {"loss": LOSS, "targets": TARGETS, "optim": OPTIM}
