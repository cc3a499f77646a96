"""Successive halving and Hyperband, on trainings that can be continued.

Successive halving (Jamieson & Talwalkar 2016) trains many trials a little, keeps one in eta, trains
those eta times as long, and so on. Hyperband (Li et al. 2018, algorithm 1) repeats that in brackets
which begin with fewer trials and longer trainings, because early scores may mislead.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from metaevo.training.agents import Agents
from metaevo.training.population import Population
from metaevo.tuning.config import SweepConfig


class Bracket(NamedTuple):
    """One round of successive halving."""

    trials: int
    """that begin"""
    eta: int
    fractions: tuple[float, ...]
    """of the training that is done at the end of each rung; the last is 1"""

    def sizes(self, trials: int | None = None) -> list[int]:
        """Return how many trials train in each rung, if that many begin (all by default)."""
        begin = self.trials if trials is None else trials
        return [max(1, begin // self.eta**rung) for rung in range(len(self.fractions))]

    def cost(self) -> float:
        """Return the training of the whole bracket, in trainings of one trial to its end."""
        steps = np.diff(self.fractions, prepend=0.0)
        return float(np.dot(self.sizes(), steps))


class Result(NamedTuple):
    """What a trial of a bracket achieved in the last rung that it reached."""

    scores: np.ndarray
    """[seeds]"""
    value: float | None
    """the objective; None where an agent diverged, or no episode has ended yet"""
    diverged: int
    """agents whose parameters are not finite"""
    fraction: float
    """of the training done"""
    frames: int
    """environment steps of all its agents"""
    complete: bool
    """whether it was trained to its end"""
    curve: tuple[np.ndarray, np.ndarray]
    """environment steps [points] and mean returns [seeds, points]"""


def brackets(config: SweepConfig) -> list[Bracket]:
    """Return the brackets of the scheduler, which are repeated until all trials are done.

    Successive halving has one, with `batch` trials or, by default, as many as leave one at the end.
    """
    eta = config.eta
    rungs = math.floor(math.log(1 / config.min_fraction, eta) + 1e-9)
    if config.scheduler == "successive_halving":
        return [Bracket(config.batch or eta**rungs, eta, _fractions(eta, rungs))]
    return [
        Bracket(math.ceil((rungs + 1) / (s + 1) * eta**s), eta, _fractions(eta, s))
        for s in range(rungs, -1, -1)
    ]


def _fractions(eta: int, rungs: int) -> tuple[float, ...]:
    return tuple(float(eta**-s) for s in range(rungs, -1, -1))


def run_bracket(
    groups: Sequence[tuple[Population, Agents, Sequence[int]]],
    bracket: Bracket,
    objective: Callable[[np.ndarray], float | None],
    report: Callable[[int, int, float], None],
    progress: Callable[[int], Any] | None = None,
) -> dict[int, Result]:
    """Train trials rung by rung; those that fall behind are stopped.

    A rung is a fraction of a trial's own training, so that trials of different lengths or batch
    sizes can share a bracket: all of them are ranked together.

    Args:
        groups: populations, untrained agents, and the numbers of their trials.
        bracket: how many survive, and when.
        objective: from the scores of a trial [seeds] to its value; None where one is not known.
        report: called with a trial's number, its environment steps (of one agent) and its value.
        progress: called with the environment steps just done.

    Returns:
        the results of all trials by their numbers.
    """
    live = [(population, agents, list(numbers)) for population, agents, numbers in groups]
    sizes = bracket.sizes(sum(len(numbers) for _, _, numbers in live))
    results: dict[int, Result] = {}
    for rung, fraction in enumerate(bracket.fractions):
        is_last = rung == len(bracket.fractions) - 1
        trained = []
        for population, agents, numbers in live:
            target = updates_at(fraction, population.num_updates)
            agents = population.advance(agents, target - agents.updates, progress)
            trained.append((population, agents, numbers))
            steps, curves = population.returns(agents)
            found = zip(
                numbers, population.scores(agents), population.diverged(agents), curves, strict=True
            )
            for number, scores, diverged, curve in found:
                value, frames = objective(scores), target * population.frames_per_update
                if value is not None:
                    report(number, frames, value)
                results[number] = Result(
                    scores,
                    value,
                    int(diverged.sum()),
                    target / population.num_updates,
                    frames * len(scores),
                    is_last,
                    (steps, curve),
                )
        if is_last:
            break
        best = _best([n for _, _, numbers in trained for n in numbers], results, sizes[rung + 1])
        live = [_survivors(*group, best) for group in trained]
        live = [group for group in live if group[2]]
    return results


def updates_at(fraction: float, num_updates: int) -> int:
    """Return the updates after which a rung ends: the fraction, rounded, and at least one."""
    return max(1, round(fraction * num_updates))


def _best(numbers: list[int], results: dict[int, Result], count: int) -> set[int]:
    """Rank trials; diverged ones never survive, those without a score if too few others do."""
    alive = [number for number in numbers if not results[number].diverged]

    def rank(number: int) -> tuple[float, int]:
        value = results[number].value
        return (math.inf if value is None else -value), number

    return set(sorted(alive, key=rank)[:count])


def _survivors(
    population: Population, agents: Agents, numbers: list[int], best: set[int]
) -> tuple[Population, Agents, list[int]]:
    kept = [place for place, number in enumerate(numbers) if number in best]
    return population, population.select(agents, kept), [numbers[place] for place in kept]
