"""Pictures of evolved policy losses, optimizers, update rules, schedules and targets."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.parts.part import LEARNED
from metaevo.reports.pictures import (
    POINTS,
    TIMES,
    Evolved,
    Function,
    Picture,
    integral,
    panels_of,
)
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
SAME = 0.005
"""A hyperparam that changes relatively less than this is the same."""


def policy_loss(found: Evolved) -> list[Panel]:
    """Draw the drift and the objective's derivative against the ratio, at two advantages.

    Drifts are zero at ratio 1: a constant in a loss has no gradient.
    """
    log_ratio = np.linspace(-np.log(2), np.log(2), POINTS, dtype=np.float32)
    ratio, advantages = np.exp(log_ratio), (1.0, -1.0)

    def compute(function, meta_params, context):
        slope = jax.vmap(jax.grad(function, argnums=2), in_axes=(None, None, 0, None))
        slopes = [slope(meta_params, context, log_ratio, jnp.float32(each)) for each in advantages]
        integrals = [integral(each, log_ratio) for each in slopes]
        drifts = [integral - integral[POINTS // 2] + (ratio - 1.0) * advantage
                  for integral, advantage in zip(integrals, advantages, strict=True)]  # fmt: skip
        return [*drifts, *(-each / ratio for each in slopes)]

    known = {"clipped_surrogate": losses.clipped_surrogate, "dpo": losses.dpo}
    label = "ratio: new / old probability"
    labels = [("", "drift", "advantage +1"), ("", "", "advantage -1"),
              (label, "∂ objective / ∂ ratio", ""), (label, "", "")]  # fmt: skip
    return panels_of(found, compute, known, ratio, labels, cross=1.0)


def make_optimizer(found: Evolved) -> list[Panel]:
    """Draw the next step against the gradient, in learning rates, for each head and momentum.

    Gradients are not clipped, and the learning rate is constant.
    """
    heads = {"value": "action_head"}
    if found.learner.slot("policy_loss"):
        heads = {"policy": "policy_head", "value": "value_head"}
    hyperparams = found.hyperparams.replace(max_grad_norm=jnp.inf, final_learning_rate=1.0)
    gradients = np.linspace(-3.0, 3.0, 121, dtype=np.float32)  # in units of SIZE

    def compute(function, meta_params, context):
        context = context.replace(hyperparams=hyperparams)
        steps = _steps(function, meta_params, context, tuple(heads.values()), gradients)
        return steps / hyperparams.learning_rate

    labels = [
        (
            "gradient" if key == "value" else "",
            "" if momentum != MOMENTA[0] else f"step ({key})",
            f"momentum {momentum:g}" if key == next(iter(heads)) else "",
        )
        for key in heads
        for momentum in MOMENTA
    ]
    return panels_of(found, compute, {"adam": optimizers.adam}, gradients, labels, cross=0.0)


@partial(jax.jit, static_argnums=(0, 3))
def _steps(
    function: Function,
    meta_params: MetaParams,
    context: Context,
    heads: tuple[str, ...],
    gradients: jax.Array,
) -> jax.Array:
    """Return an optimizer's steps [heads x momenta, points], compiled once for all."""
    params = {"params": {name: {"kernel": jnp.full(gradients.shape, 0.1)} for name in heads}}
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
        return step(state, gradients)[1]["params"]

    steps = jax.vmap(after)(jnp.asarray(MOMENTA))
    return jnp.concatenate([steps[name]["kernel"] for name in heads])


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

    def compute(function, meta_params, context):
        weight = function(meta_params, context, episode).policy
        return [(weight[:, 1] - weight[:, 0])[::-1]]

    before = np.arange(REWARD_STEPS)
    label = "steps before the reward", "change of the weight", ""
    return panels_of(found, compute, {"a2c": lpg.a2c}, before, [label], cross=0.0)


def schedule(found: Evolved) -> list[Panel]:
    """Draw every hyperparam that the schedule changes over training."""
    progress = np.linspace(0.0, 1.0, POINTS, dtype=np.float32)
    names = [name for name, value in vars(found.hyperparams).items() if value is not None]

    def compute(function, meta_params, context):
        def at(done):
            changed = function(meta_params, context.replace(progress=done))
            values, rate = vars(changed), changed.learning_rate
            if changed.annealing_steps is None:  # the optimizer anneals over the whole training
                rate = rate * (1.0 + (changed.final_learning_rate - 1.0) * done)
            return [{**values, "learning_rate": rate}[name] for name in names]

        return jax.vmap(at)(progress)

    slot = found.learner.slot("schedule") or optimizers.SCHEDULE
    known = {name: slot.functions[name] for name in slot.compared}
    labels = [("training done", name, "") for name in names]
    panels = panels_of(found, compute, known, progress, labels)

    def changes(panel: Panel) -> bool:
        value, usual = (np.asarray(panel.curves[each][1]) for each in (LEARNED, slot.compared[0]))
        return bool((np.abs(value - usual) > SAME * np.abs(usual)).any())

    return [*filter(changes, panels)] or [panels[names.index("learning_rate")]]


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

    def compute(function, meta_params, context):
        def first(errors):
            reward = errors + values - gamma * next_values
            rollout = Rollout(reward, values, next_values, never, never, log_prob)
            return jnp.stack([each[0] for each in function(meta_params, context, rollout)])

        changed = jax.vmap(lambda step: first(errors.at[step].add(1.0)))(jnp.arange(len(errors)))
        return jnp.mean(changed - first(errors), axis=-1).T

    label = "steps until the TD error"
    labels = [(label, "weight", "in the advantage"), (label, "", "in the value target")]
    steps = np.arange(len(errors))
    return panels_of(found, compute, {"gae": returns.gae}, steps, labels, cross=0.0)


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
