"""Formulas for a learned schedule: the factor of every hyperparameter over training.

No recording is needed, as the only input of a schedule is the completed fraction of training. Each
hyperparameter that it changes has its own formulas; together they fill the slot.
"""

import ast
from collections.abc import Mapping
from typing import Literal

import jax
import numpy as np

from metaevo.components.formula import Config
from metaevo.components.parts import Part
from metaevo.components.schedules import POINTS, SAME
from metaevo.discovery import regression
from metaevo.discovery.regression import Formula, Named, Terms, text_of
from metaevo.training.task import LearnerSettings
from purerl.types import Context, MetaParams

SLOT: Literal["schedule"] = "schedule"
PROGRESS = np.linspace(0.0, 1.0, POINTS, dtype=np.float32)


def factors_of(
    part: Part, meta_params: MetaParams, settings: LearnerSettings
) -> dict[str, np.ndarray]:
    """Return the factor of every hyperparameter that a schedule changes, [POINTS] each."""
    given = settings.hyperparams

    def at(progress):
        context = Context(given, progress, settings.train.num_updates)
        return vars(part.function(meta_params, context))

    changed = jax.vmap(at)(PROGRESS)
    found = {}
    for name, value in vars(given).items():
        if isinstance(value, int | float) and value:
            factor = np.asarray(changed[name], np.float64) / value
            if (np.abs(factor - 1.0) > SAME).any():
                found[name] = factor
    return found


def search(factors: Mapping[str, np.ndarray], *, seed: int, evaluations: int) -> list[Formula]:
    """Return formulas for all hyperparameters together, of growing length and smaller error.

    The first combination has a constant for each hyperparameter. Each next combination takes a
    longer formula for the hyperparameter with the largest decrease in error per length.

    Args:
        factors: over `PROGRESS`, by hyperparameter.
        seed: of the search.
        evaluations: total number of evaluated candidates.
    """
    inputs = {"progress": PROGRESS}
    fronts: dict[str, list[Formula]] = {}
    for number, (name, wanted) in enumerate(factors.items()):
        pieces = [_piece(name, {"": float(np.mean(wanted))}, wanted)]
        if np.ptp(wanted) > SAME * np.abs(wanted).max():
            terms = regression.sums_of(
                inputs, wanted, seed=seed + 1000 * number, evaluations=evaluations // len(factors)
            )
            pieces += [_piece(name, each, wanted) for each in terms]
        fronts[name] = regression.front(pieces)
    places = dict.fromkeys(fronts, 0)
    found = [_together({name: front[0] for name, front in fronts.items()})]
    while steps := {
        name: _gain(*front[places[name] : places[name] + 2])
        for name, front in fronts.items()
        if places[name] + 1 < len(front)
    }:
        places[max(steps, key=lambda name: steps[name])] += 1
        found.append(_together({name: front[places[name]] for name, front in fronts.items()}))
    return regression.front(found)


def _piece(name: str, terms: Terms, wanted: np.ndarray) -> Formula:
    config = Config(SLOT, text_of(terms), {}, hyperparam=name)
    values = np.broadcast_to(config.parsed.evaluate({"progress": PROGRESS}), wanted.shape)
    left = np.mean(np.square(np.asarray(values, np.float64) - wanted))
    error = left / np.var(wanted) if np.ptp(wanted) else 0.0
    return Formula(config, config.length, float(error))


def _gain(short: Formula, long: Formula) -> float:
    return (short.error - long.error) / (long.length - short.length)


def _together(pieces: Mapping[str, Formula]) -> Formula:
    """One component of all; its error is the mean of theirs."""
    named = Named()
    texts = {
        name: ast.unparse(named.visit(ast.parse(piece.config.expression, mode="eval")))
        for name, piece in pieces.items()
    }
    first = next(iter(texts))
    config = Config(SLOT, texts.pop(first), named.constants, hyperparam=first, also=texts)
    error = float(np.mean([piece.error for piece in pieces.values()]))
    return Formula(config, config.length, error)
