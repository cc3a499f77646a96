"""What their modules are around a rule: functions that are copied into them like all others.

A `Rule` has a function for each slot of a module, without its meta-parameters, and `settings`
returns the hyperparameters from their config.
"""

from collections.abc import Callable
from functools import reduce
from operator import getitem
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl.types import Rollout

Rule = dict[str, Callable[..., Any]]
Settings = Callable[[dict[str, Any]], dict[str, Any]]
PLACES = {
    "Dense_0": ("actor_torso", "Dense_0"),
    "Dense_1": ("actor_torso", "Dense_1"),
    "Dense_2": ("policy_head",),
    "Dense_3": ("critic_torso", "Dense_0"),
    "Dense_4": ("critic_torso", "Dense_1"),
    "Dense_5": ("value_head",),
}
"""Layers of their networks.py, in ours."""


class Context(SimpleNamespace):
    """Settings and progress of training."""

    def replace(self, **changes: Any) -> "Context":
        """Return a changed copy."""
        return Context(**{**vars(self), **changes})


def context_at(settings: Settings, config: dict[str, Any], update: Any, **others: Any) -> Context:
    """Return the context of an update."""
    total = int(config["TOTAL_TIMESTEPS"] // config["NUM_STEPS"] // config["NUM_ENVS"])
    return Context(
        hyperparams=Context(**settings(config)),
        progress=update / total,
        num_updates=total,
        frames=update * config["NUM_STEPS"] * config["NUM_ENVS"],
        **others,
    )


def update_of(traj_batch: Any, config: dict[str, Any]) -> Any:
    """Return the number of updates before a batch, by its environments' steps."""
    return (jnp.max(traj_batch.info["timestep"]) - 1) // config["NUM_STEPS"]


def loss_actor_and_critic(rule: Rule, settings: Settings) -> Callable[..., Any]:
    """Return their function of a minibatch's loss, and its parts."""

    def of_batch(params, traj_batch, gae, targets, network, config):
        context = context_at(settings, config, update_of(traj_batch, config))
        pi, value = network.apply(params, traj_batch.obs)
        log_ratio = pi.log_prob(traj_batch.action) - traj_batch.log_prob
        advantage = (gae - gae.mean()) / (gae.std() + 1e-8)

        def mean_of(slot, *arguments):
            return jax.vmap(lambda *each: rule[slot](context, *each))(*arguments).mean()

        actor = mean_of("policy_loss", log_ratio, advantage)
        critic = mean_of("value_loss", value, targets, traj_batch.value)
        entropy = pi.entropy().mean()
        total = actor + config["VF_COEF"] * critic - config["ENT_COEF"] * entropy
        return total, (critic, actor, entropy)

    return of_batch


def get_targets(rule: Rule, settings: Settings) -> Callable[..., Any]:
    """Return their function of advantages and value targets [T, N]."""

    def of_rollout(traj_batch, last_val, config):
        context = context_at(settings, config, update_of(traj_batch, config))
        value = traj_batch.value
        rollout = Rollout(
            reward=traj_batch.reward,
            value=value,
            next_value=jnp.concatenate([value[1:], last_val[None]]),
            terminated=traj_batch.done,  # a truncated step has its last value in the reward
            truncated=jnp.zeros_like(traj_batch.done),
            log_prob=traj_batch.log_prob,
        )
        return tuple(rule["targets"](context, rollout))

    return of_rollout


def make_optimizer(rule: Rule, settings: Settings) -> Callable[..., Any]:
    """Return their function that makes a function that makes the optimizer of raw gradients."""

    def of_config(config):
        size, epochs = config["NUM_MINIBATCHES"], config["UPDATE_EPOCHS"]

        def optimizer_at(step):
            update, within = step // (size * epochs), step % (size * epochs)
            begun = {"epoch": within // size / epochs, "minibatch": within % size / size}
            sizes = {"num_epochs": epochs, "num_minibatches": size}
            context = context_at(settings, config, update, **begun, **sizes)
            return optax.with_extra_args_support(rule["make_optimizer"](context)), context

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

    return of_config


def named(tree: Any) -> Any:
    """Return the layers of their network under names that tell which are the policy's."""
    found: dict[str, Any] = {"actor_torso": {}, "critic_torso": {}}
    for name, layer in tree["params"].items():
        *torso, own = PLACES.get(name, (name,))
        (found[torso[0]] if torso else found)[own] = layer
    return {"params": found}


def renamed(tree: Any) -> Any:
    """Return named layers under the names of their network."""
    found = tree["params"]
    layers = {name: reduce(getitem, place, found) for name, place in PLACES.items()}
    return {"params": layers | {name: found[name] for name in found if name == "log_std"}}


def by_moves(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes an optimizer of the sum of its steps, not of the parameters.

    For optimizers that mix parameters with steps, whose learning rate they do not know.
    """

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
