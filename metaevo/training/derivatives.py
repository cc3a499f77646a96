"""Derivatives of how well an agent learns, with respect to its meta-parameters.

After every update the agent acts again, and the objective is the policy gradient of that rollout:

    J(theta') = mean log pi_theta'(a | s) A(s, a)            theta' = update(theta, meta_params)

Its derivative with respect to the meta-parameters goes through the update, and through earlier
updates within the window (Xu et al. 2018, "Meta-Gradient Reinforcement Learning";
Oh et al. 2020, section 4.2). The effect of the meta-parameters on later observations and on updates
beyond the window is ignored, so the estimate is biased but less noisy.
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.parts.normalization import standardized
from purerl.types import EnvParams, Hyperparams, MetaParams, TrainResult


def train_and_differentiate(
    learner: Any,
    key: jax.Array,
    hyperparams: Hyperparams,
    meta_params: MetaParams,
    env_params: EnvParams,
    window: int,
) -> tuple[TrainResult, MetaParams]:
    """Train one agent from scratch, and differentiate through `window` updates at a time.

    The arguments are those of `learner.train`, of a PPO.

    Returns:
        the result of `learner.train`, and the gradient with respect to the meta-parameters, summed
        over all updates.

    Raises:
        ValueError: if the learner is no policy gradient, or its updates do not fill windows.
    """
    if not hasattr(learner, "policy_loss"):
        raise ValueError("only PPO's trainings have them")
    updates = learner.config.num_updates
    if updates % window:
        raise ValueError(f"the window of {window} updates must divide a training's {updates}")

    def collect(state, meta_params):
        told = learner.schedule(meta_params, learner.context(state, hyperparams))
        state, transitions, sums = learner.collect(state, env_params)
        transitions = jax.lax.stop_gradient(transitions)  # what happened is given
        state, batch = learner.make_batch(state, transitions, told)
        policy, _ = learner.replay(state.params, batch)  # but not how likely it was
        log_prob = policy.log_prob(batch.transition.action)
        transition = batch.transition._replace(log_prob=log_prob)
        return state, batch._replace(transition=transition), sums, told

    def advance(meta_params, carry):
        state, batch, sums, told = carry
        state, metrics = learner.learn(state, batch, told, meta_params)
        carry = state, after, *_ = collect(state, meta_params)
        advantage = jax.lax.stop_gradient(standardized(after.advantage))
        gain = jnp.mean(after.transition.log_prob * advantage)
        return carry, (gain, sums, metrics)

    def objective(meta_params, carry):
        step = jax.checkpoint(lambda carry, _: advance(meta_params, carry))
        carry, (gains, sums, metrics) = jax.lax.scan(step, carry, length=window)
        return jnp.sum(gains), (carry, sums, metrics)

    def through_window(carry, _):
        carry, total = carry
        cut = jax.tree.map(jax.lax.stop_gradient, carry)
        gradient, (carry, sums, metrics) = jax.grad(objective, has_aux=True)(meta_params, cut)
        return (carry, jax.tree.map(jnp.add, total, gradient)), (sums, metrics)

    start = collect(learner.init(key, hyperparams, meta_params, env_params), meta_params)
    nothing = jax.tree.map(jnp.zeros_like, meta_params)
    ((state, *_), gradient), logged = jax.lax.scan(
        through_window, (start, nothing), length=updates // window
    )
    sums, metrics = jax.tree.map(lambda x: x.reshape(updates, *x.shape[2:]), logged)
    return TrainResult(state, sums, metrics), gradient
