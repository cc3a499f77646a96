"""Describe the shape of a learned loss in one generated sentence."""

from collections.abc import Callable, Mapping

import jax
import numpy as np

from purerl.types import Context, Hyperparams, MetaParams

POINTS = 2001


def value_loss_sentence(
    value_loss: Callable,
    meta_params: MetaParams,
    hyperparams: Hyperparams,
    observed: Mapping[str, float],
) -> str:
    """Say where a value loss is lowest, how it slopes there and how steep it is.

    Args:
        value_loss: the slot function.
        meta_params: of the slot function.
        hyperparams: of the experiment.
        observed: as far as it is known `error`, the size that errors have; `target`, a typical
            one; and `steepness`, how many times as steep as squared error it is.

    Returns:
        one sentence.
    """
    limit, target = float(observed.get("error", 1.0)), np.float32(observed.get("target", 0.0))
    error = np.linspace(-limit, limit, POINTS, dtype=np.float32)

    def loss(error):
        prediction = target + error
        return value_loss(meta_params, Context(hyperparams), prediction, target, prediction)

    def slope_at(error):
        """The old prediction is the prediction, and no variable."""
        prediction = target + error
        slope = jax.grad(value_loss, argnums=2)
        return slope(meta_params, Context(hyperparams), prediction, target, prediction)

    values = np.asarray(jax.jit(jax.vmap(loss))(error), np.float64)
    slope = float(jax.jit(slope_at)(np.float32(0)))
    if not np.isfinite(values).all() or not np.isfinite(slope):
        return "The loss is not finite at some of the errors that occur."
    lowest = int(np.argmin(values))
    where = f"of -{limit:.2g} to {limit:.2g}" + " that occur" * ("error" in observed)
    if np.ptp(values) == 0:
        place = f"The loss is the same at all errors {where}"
    elif lowest in (0, POINTS - 1):
        falls = "rises" if lowest == 0 else "falls"
        place = f"The loss has no minimum at errors {where}: it {falls} all the way"
        if not (np.diff(values) > 0).all() and not (np.diff(values) < 0).all():
            place = f"The loss is lowest at the {'lower' if lowest == 0 else 'upper'} end of the "
            place += f"errors {where}"
    else:
        at = float(error[lowest])
        place = f"The loss has its minimum at error {at:+.2g} (errors {where})"
        if abs(at) < limit / 200:
            place = f"The loss has its minimum at error 0 (errors {where})"
    parts = [place, f"its slope at zero error is {slope:.2g}"]
    steepness = observed.get("steepness")
    if steepness is not None and 1e-3 <= steepness <= 1e3:
        parts.append(f"it is {steepness:.2g} times as steep as squared error")
    return ", ".join(parts[:-1]) + f" and {parts[-1]}."


def policy_loss_sentence(
    policy_loss: Callable, meta_params: MetaParams, hyperparams: Hyperparams
) -> str:
    """Say up to which ratios a policy loss pushes the policy.

    Args:
        policy_loss: the slot function.
        meta_params: of the slot function.
        hyperparams: of the experiment.

    Returns:
        one sentence.
    """
    log_ratio = np.linspace(0, np.log(2), POINTS, dtype=np.float32)
    slope = jax.vmap(jax.grad(policy_loss, argnums=2), in_axes=(None, None, 0, None))

    def reach(advantage: float) -> str:
        """Return the ratio of probabilities up to which an advantage pushes the policy."""
        path = log_ratio * np.sign(advantage)
        push = -np.asarray(slope(meta_params, Context(hyperparams), path, np.float32(advantage)))
        ends = np.flatnonzero(push * advantage <= 1e-6)
        return f"to {np.exp(path[ends[0]]):.3g}" if len(ends) else f"past {2.0**advantage:.3g}"

    return (
        "The policy loss pushes the ratio of probabilities (new / old) up "
        f"{reach(1.0)} at an advantage of +1 and down {reach(-1.0)} at -1."
    )
