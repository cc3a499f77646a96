"""Parts that look at time: their curves at several times of training."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.parts.part import LEARNED, Evolved
from purerl.types import Context

QUARTERS = {f"{LEARNED} at {percent}%": percent / 100 for percent in (0, 25, 50, 75, 100)}
"""The share of training that is done, by the name of a curve."""


def at(found: Evolved, progress: float) -> Callable[..., Any]:
    """Return the slot function as it is when that share of training is done."""

    def of_slot(meta_params, context, *arguments):
        context = context.replace(progress=progress, num_updates=found.num_updates)
        return found.apply(meta_params, context, *arguments)

    return of_slot


def quarters(found: Evolved, num_scalars: int) -> dict[str, Callable[..., Any]]:
    """Return a loss at each quarter of training, by the names of the curves in a figure.

    A loss of `num_scalars` arguments after meta_params and context that ignores progress has a
    single curve, `LEARNED`.
    """
    scalars = [jnp.float32(0.5)] * num_scalars

    def value(progress):
        context = Context(found.hyperparams, progress, found.num_updates)
        return found.apply(found.meta_params, context, *scalars)

    traced = jax.make_jaxpr(value)(0.5).jaxpr
    (progress,) = traced.invars
    if not any(each is progress for equation in traced.eqns for each in equation.invars):
        return {LEARNED: found.apply}
    return {name: at(found, share) for name, share in QUARTERS.items()}


def sentences(found: Evolved, num_scalars: int, say: Callable[[Callable], str]) -> list[str]:
    """Return what `say` says about a loss; of the start and the end if they differ."""
    functions = list(quarters(found, num_scalars).values())
    start, end = say(functions[0]), say(functions[-1])
    if start == end:
        return [start]
    return [f"At the start of training: {start}", f"At its end: {end}"]
