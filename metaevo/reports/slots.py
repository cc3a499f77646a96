"""Pictures of evolved policy losses, optimizers, update rules, schedules and targets."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid

from metaevo.parts.part import LEARNED
from metaevo.reports.pictures import POINTS, TIMES, Evolved, Picture, curves_of
from metaevo.reports.plots import Panel
from purerl.parts import losses, optimizers, returns
from purerl.types import Context, MetaParams, Rollout

MOMENTA = -0.6, 0.0, 0.6
"""Means of the gradients before, in units of their root mean square."""
GRADIENTS_BEFORE, REWARD_STEPS = 40, 16
ERRORS, ROLLOUTS = 32, 64
"""TD errors that follow a step in a rollout, and number of rollouts."""
SIZE = 1e-2
"""The gradient's root mean square: of 2,500 parameters, a norm of 0.5."""
GRADIENTS = np.linspace(-3.0, 3.0, 121, dtype=np.float32)
"""in units of SIZE"""
SAME = 0.005
"""A hyperparam that changes relatively less than this is the same."""


def policy_loss(found: Evolved) -> list[Panel]:
    """Draw the drift and the objective's derivative against the ratio, at two advantages.

    Drifts are zero at ratio 1: a constant in a loss has no gradient.
    """
    log_ratio = np.linspace(-np.log(2), np.log(2), POINTS, dtype=np.float32)
    ratio = np.exp(log_ratio)
    above: list[Panel] = []
    below: list[Panel] = []
    for advantage in (1.0, -1.0):

        def slopes(function, meta_params, context, advantage=advantage):
            slope = jax.vmap(jax.grad(function, argnums=2), in_axes=(None, None, 0, None))
            return slope(meta_params, context, log_ratio, jnp.float32(advantage))

        known = {"clipped_surrogate": losses.clipped_surrogate, "dpo": losses.dpo}
        drifts, derivatives = {}, {}
        for name, slope in curves_of(found, slopes, known).items():
            loss = cumulative_trapezoid(slope, log_ratio, initial=0.0)
            drift = loss - np.interp(0.0, log_ratio, loss) + (ratio - 1.0) * advantage
            drifts[name], derivatives[name] = (ratio, drift), (ratio, -slope / ratio)
        title, first = f"advantage {advantage:+g}", not above
        label = "∂ objective / ∂ ratio" if first else ""
        above.append(Panel(drifts, "", "drift" if first else "", title, cross=1.0))
        below.append(Panel(derivatives, "ratio: new / old probability", label, cross=1.0))
    return above + below


def make_optimizer(found: Evolved) -> list[Panel]:
    """Draw the next step against the gradient, in learning rates, for each head and momentum.

    Gradients are not clipped, and the learning rate is constant.
    """
    heads = {"value": "action_head"}
    if found.learner.slot("policy_loss"):
        heads = {"policy": "policy_head", "value": "value_head"}
    hyperparams = found.hyperparams.replace(max_grad_norm=jnp.inf, final_learning_rate=1.0)

    def steps(function, meta_params, context):
        context = context.replace(hyperparams=hyperparams)
        return _steps(function, meta_params, context, tuple(heads.values()))

    curves = curves_of(found, steps, {"adam": optimizers.adam})
    rate = float(hyperparams.learning_rate)
    return [
        Panel(
            {name: (GRADIENTS, each[head]["kernel"][at] / rate) for name, each in curves.items()},
            "gradient" if key == "value" else "",
            "" if at else f"step ({key})",
            f"momentum {momentum:g}" if key == next(iter(heads)) else "",
            cross=0.0,
        )
        for key, head in heads.items()
        for at, momentum in enumerate(MOMENTA)
    ]


@partial(jax.jit, static_argnums=(0, 3))
def _steps(
    function: Callable[..., Any], meta_params: MetaParams, context: Context, names: tuple[str, ...]
) -> Any:
    """Return an optimizer's steps; compiled once for all meta-parameters."""
    params = {"params": {name: {"kernel": jnp.full(GRADIENTS.shape, 0.1)} for name in names}}
    context = context.replace(epoch=0.0, minibatch=0.0, key=jax.random.key(0))
    signs = (-1.0) ** jnp.arange(GRADIENTS_BEFORE)
    optimizer = function(meta_params, context)

    def step(state, gradient):
        gradients = jax.tree.map(lambda leaf: SIZE * gradient * jnp.ones_like(leaf), params)
        updates, state = optimizer.update(gradients, state, params, context=context)
        return state, updates

    def after(momentum):
        before = momentum + jnp.sqrt(1.0 - momentum**2) * signs
        state, _ = jax.lax.scan(step, optimizer.init(params), before)
        return step(state, jnp.asarray(GRADIENTS))[1]["params"]

    return jax.vmap(after)(jnp.asarray(MOMENTA))


def update_rule(found: Evolved) -> list[Panel]:
    """Draw what a reward of 1 changes in the weights of the steps before it.

    It ends an episode with predictions of zero and probabilities of 1/4.
    """
    from purerl import lpg

    shape = REWARD_STEPS, 2
    reward = jnp.zeros(shape).at[-1, 1].set(1.0)
    never, numbers = jnp.zeros(shape, bool), jnp.zeros((*shape, lpg.PREDICTION_SIZE))
    log_prob, ended = jnp.full(shape, jnp.log(0.25)), never.at[-1].set(True)
    episode = lpg.Trajectory(reward, ended, never, log_prob, numbers, numbers)

    def credit(function, meta_params, context):
        weight = function(meta_params, context, episode).policy
        return (weight[:, 1] - weight[:, 0])[::-1]

    before = np.arange(REWARD_STEPS)
    credits = curves_of(found, credit, {"a2c": lpg.a2c})
    curves = {name: (before, each) for name, each in credits.items()}
    return [Panel(curves, "steps before the reward", "change of the weight", cross=0.0)]


def schedule(found: Evolved) -> list[Panel]:
    """Draw every hyperparam that the schedule changes over training."""
    progress = np.linspace(0.0, 1.0, POINTS, dtype=np.float32)

    def over_training(function, meta_params):
        def at(done):
            changed = function(meta_params, Context(found.hyperparams, done, found.num_updates))
            values, rate = vars(changed), changed.learning_rate
            if changed.annealing_steps is None:  # the optimizer anneals over the whole training
                rate = rate * (1.0 + (changed.final_learning_rate - 1.0) * done)
            return {**values, "learning_rate": rate}

        return jax.device_get(jax.vmap(at)(jnp.asarray(progress)))

    slot = found.learner.slot("schedule") or optimizers.SCHEDULE
    curves = {LEARNED: over_training(found.part.apply, found.meta_params)}
    curves |= {name: over_training(slot.functions[name], None) for name in slot.compared}
    given = curves[slot.compared[0]]
    changed = []
    for name in vars(found.hyperparams):  # in this order, which is not alphabetical
        value, usual = curves[LEARNED][name], given[name]
        if value is not None and (np.abs(value - usual) > SAME * np.abs(usual)).any():
            changed.append(name)
    return [
        Panel({key: (progress, each[name]) for key, each in curves.items()}, "training done", name)
        for name in changed or ["learning_rate"]
    ]


def targets(found: Evolved) -> list[Panel]:
    """Draw the weight of a TD error in advantage and target, by the steps until it occurs.

    The weight is the change by an error of one standard deviation, per standard deviation, as a
    mean over rollouts without an end whose errors are independent and standard normal.
    """
    shape = ERRORS + 1, ROLLOUTS
    rng = np.random.default_rng(0)
    errors, values = jnp.float32(rng.normal(size=(2, *shape)))
    next_values = jnp.concatenate([values[1:], values[-1:]])
    never, log_prob = jnp.zeros(shape, bool), jnp.full(shape, jnp.log(0.5))
    gamma = found.hyperparams.gamma

    def weights(function, meta_params, context):
        def first(errors):
            reward = errors + values - gamma * next_values
            rollout = Rollout(reward, values, next_values, never, never, log_prob)
            return jnp.stack([each[0] for each in function(meta_params, context, rollout)])

        changed = jax.vmap(lambda step: first(errors.at[step].add(1.0)))(jnp.arange(len(errors)))
        return tuple(jnp.moveaxis(jnp.mean(changed - first(errors), axis=-1), 1, 0))

    curves = curves_of(found, weights, {"gae": returns.gae})
    steps = np.arange(len(errors))
    return [
        Panel(
            {name: (steps, each[index]) for name, each in curves.items()},
            "steps until the TD error",
            "weight" if index == 0 else "",
            title,
            cross=0.0,
        )
        for index, title in enumerate(("in the advantage", "in the value target"))
    ]


PICTURES = {
    "policy_loss": Picture(
        "policy_loss.png",
        "The discovered policy loss next to PPO's clip and DPO, for advantages of one standard "
        "deviation up and down. Above: the drift, what the objective is below ratio times "
        "advantage, less that at ratio 1; below: the objective's derivative, which pushes the "
        "policy." + TIMES,
        policy_loss,
        {"columns": 2, "sharex": "col", "sharey": "row"},
    ),
    "make_optimizer": Picture(
        "optimizer.png",
        "The discovered optimizer's next step for a parameter against its gradient, next to "
        "Adam's, in learning rates; the gradient in units of its usual size. Before it came "
        f"{GRADIENTS_BEFORE} gradients with the same mean square and with the mean in the title. "
        "The learning rate is held constant." + TIMES,
        make_optimizer,
        {"columns": len(MOMENTA), "sharex": True, "sharey": "row"},
    ),
    "update_rule": Picture(
        "credit.png",
        "What a reward of 1, at the end of an episode, changes in the weights of the steps before "
        "it: how far back the rule gives credit. For a2c that is a power of gamma lambda." + TIMES,
        update_rule,
        {},
    ),
    "schedule": Picture(
        "schedule.png",
        "What the discovered schedule makes of the learner's hyperparameters over training, next "
        "to hand-written ones. The learning rate is what the optimizer anneals to, where that "
        "takes the whole training.",
        schedule,
        {"columns": 2, "sharex": True},
    ),
    "targets": Picture(
        "targets.png",
        "How much a TD error counts in the discovered advantage of an action, and in the target of "
        "the value, by the number of steps after it. For GAE that is a power of gamma lambda."
        + TIMES,
        targets,
        {"columns": 2, "sharey": "row"},
    ),
}
"""by slot"""
