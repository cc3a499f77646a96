"""Pictures of learned update rules: their credit assignment, targets and predictions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.parts.part import LEARNED, Evolved
from metaevo.reports.update_rule_plots import Rollout, plot_credit, plot_predictions, plot_rollout
from purerl import envs
from purerl.parts import update_rules
from purerl.types import PREDICTION_SIZE, Context, MetaParams, Trajectory

STEPS = 16
"""A reward's effect is shown that far back."""
QUARTERS = {"first": 0.125, "second": 0.375, "third": 0.625, "last": 0.875}
"""The middles of the quarters of training."""
NUM_UPDATES = 100
SIZE = 5
"""Rows and columns of the grid in which an agent is trained for the pictures."""
CAPTIONS = {
    "credit.png": "What a reward of 1, at the end of an episode, changes in the weights of the "
    "steps before it: how far back the rule gives credit. For a2c that is a power of gamma "
    "lambda. A rule that knows the time has a curve for every quarter of training.",
    "targets.png": f"A rollout of a trained agent in a {SIZE} x {SIZE} GridWorld; dotted lines are "
    "ends of episodes. Above: the rule's weight of each action, and the rewards that followed it, "
    "discounted as a2c does. Below: how likely the agent predicts each class, and how likely it is "
    "to.",
    "predictions.png": "How likely the same agent predicts each class in every cell. The goal is "
    "in the lower right corner.",
}


def credit(
    update_rule: Callable[..., Any], meta_params: MetaParams, context: Context
) -> np.ndarray:
    """Return the change in the weights of earlier steps by a reward of 1 [STEPS], the last first.

    The reward ends an episode of `STEPS` steps with predictions of zero and probabilities of 1/4.
    """
    reward = jnp.zeros((STEPS, 2)).at[-1, 1].set(1.0)
    never, numbers = jnp.zeros((STEPS, 2), bool), jnp.zeros((STEPS, 2, PREDICTION_SIZE))
    log_prob = jnp.full((STEPS, 2), jnp.log(0.25))
    episode = Trajectory(reward, never.at[-1].set(True), never, log_prob, numbers, numbers)
    weight = update_rule(meta_params, context, episode).policy
    return np.asarray(weight[:, 1] - weight[:, 0])[::-1]


def credits_of(found: Evolved) -> dict[str, np.ndarray]:
    """Return the learned curve, or one for every quarter of training, and the curve of a2c."""
    context = Context(found.hyperparams, num_updates=NUM_UPDATES)
    curves = {
        f"{LEARNED} ({name} quarter)": credit(
            found.apply, found.meta_params, context.replace(progress=progress)
        )
        for name, progress in QUARTERS.items()
    }
    first, *others = curves.values()
    if all(np.array_equal(first, other) for other in others):
        curves = {LEARNED: first}
    return curves | {"a2c": credit(update_rules.a2c, None, context)}


def findings(found: Evolved, observed: Mapping[str, float]) -> list[str]:
    """Say how far back the rule gives credit."""
    del observed
    *learned, _ = credits_of(found).values()
    curve = np.mean(learned, axis=0)
    if not np.isfinite(curve).all():
        return ["The rule's targets are not finite."]
    if curve[0] <= 0:
        return ["A reward makes the action that earned it no likelier."]
    raised = f"A reward of 1 raises the weight of the action that earned it by {curve[0]:.2g}"
    weak = np.flatnonzero(curve < 0.5 * curve[0])
    if not len(weak):
        return [f"{raised}, and of actions {STEPS - 1} steps earlier by at least half as much."]
    steps = "a step" if weak[0] == 1 else f"{weak[0]} steps"
    return [f"{raised}, and of actions {steps} earlier by less than half as much."]


def draw(found: Evolved, figures: Path) -> None:
    """Draw credit.png, and of an agent trained with the rule targets.png and predictions.png."""
    plot_credit(credits_of(found), figures / "credit.png")
    rollout, probabilities = illustration(found)
    plot_rollout(rollout, figures / "targets.png")
    plot_predictions(probabilities, figures / "predictions.png")


def illustration(found: Evolved) -> tuple[Rollout, np.ndarray]:
    """Train an agent, and let it act once more.

    Returns:
        its behaviour in its first environment, and its prediction in every cell, [SIZE, SIZE,
        classes]; a rule with values as targets has one class, the value.
    """
    env, env_params = envs.make("GridWorld", size=SIZE)
    config = found.learner.config(8 * 20 * NUM_UPDATES, num_envs=8, num_steps=20)
    learner: Any = found.learner.make(config, env, update_rule=found.apply)

    def train(key, meta_params):
        result = learner.train(key, found.hyperparams, meta_params, env_params)
        _, experience, _ = learner.collect(result.state, env_params)
        context = Context(found.hyperparams, progress=1.0, num_updates=NUM_UPDATES)
        trajectory = experience.trajectory
        targets = found.apply(meta_params, context, trajectory)
        zeros = jnp.zeros_like(trajectory.prediction)
        unexpected = trajectory._replace(prediction=zeros, next_prediction=zeros)
        values = targets.prediction.ndim == 2
        meaning = (lambda numbers: numbers[..., :1]) if values else jax.nn.softmax
        rollout = Rollout(
            targets.policy,
            update_rules.a2c(None, context, unexpected).policy,
            meaning(trajectory.prediction),
            meaning(targets.prediction[..., None] if values else targets.prediction),
            trajectory.terminated | trajectory.truncated,
        )
        _, prediction = learner.network.apply(result.state.params, jnp.eye(SIZE * SIZE))
        return jax.tree.map(lambda leaf: leaf[:, 0], rollout), meaning(prediction)

    rollout, prediction = jax.device_get(jax.jit(train)(jax.random.key(0), found.meta_params))
    return rollout, prediction.reshape(SIZE, SIZE, -1)
