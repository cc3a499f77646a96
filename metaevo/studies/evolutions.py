"""The evolutions of a run that differ only in their seeds; the best one represents the run."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.comparison.unseen import carried
from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.parts.part import LEARNED
from metaevo.reports import page
from metaevo.reports.numbers import difference_text, number
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut, Judgement, ResultRow, Together, pooled
from metaevo.studies import verdict
from metaevo.studies.settings import EvolutionSettings


class Member(NamedTuple):
    """One of several evolutions."""

    seed: int
    directory: RunDirectory

    @property
    def name(self) -> str:
        """Name of the result in the comparison."""
        return f"{LEARNED} seed {self.seed}"

    @property
    def records(self) -> Sequence[PlainMapping]:
        """Records of the generations."""
        return self.directory.read_metrics("generation")


def members_of(path: Path, settings: EvolutionSettings) -> list[Member]:
    """Return all evolutions of the run in a directory, even if they have not begun."""
    first = settings.run.seed
    seeds = range(first, first + settings.run.evolution_seeds)
    return [Member(seed, RunDirectory(path / f"seed_{seed}")) for seed in seeds]


class Evolutions:
    """The evolutions of a run in which all are done."""

    def __init__(self, path: Path, settings: EvolutionSettings):
        """Choose the best on validation seeds; arguments as for `members_of`."""
        self.members = members_of(path, settings)
        self.validation = [_validation_of(each, settings) for each in self.members]
        self.chosen = self.members[self.validation.index(max(self.validation))]

    def save_chosen(self, directory: RunDirectory) -> None:
        """Write the meta-parameters of the best evolution to the directory of the run."""
        found, about = checkpoint.load_tree(self.chosen.directory.meta_params)
        about = {**about, "evolution_seed": self.chosen.seed}
        checkpoint.save_tree(directory.meta_params, found, about)

    def learned(self) -> dict[str, MetaParams]:
        """Return the meta-parameters by name in the comparison, the best evolution first."""
        others = [each for each in self.members if each is not self.chosen]
        return {
            each.name: checkpoint.load_tree(each.directory.meta_params)[0]
            for each in [self.chosen, *others]
        }

    def judged(self, result: HeldOut) -> list[Judgement]:
        """Return `evolutions` of evaluation.json, with the seeds and the fitness in validation."""
        judged = verdict.judgements(result)
        return [
            {**judged[each.name], "seed": each.seed, "validation": score}
            for each, score in zip(self.members, self.validation, strict=True)
        ]

    def text(self) -> str:
        """Describe the spread of the fitness in validation and the evolution that is loaded."""
        low, high = number(min(self.validation)), number(max(self.validation))
        return (
            f"{len(self.members)} evolutions, on validation seeds from {low} to {high}; the best "
            f"there, seed {self.chosen.seed}, is the result of the run."
        )

    def table(self, result: HeldOut | None) -> page.Table:
        """Return a table of the evolutions, of their mean and of the best hand-written variant."""
        columns = ["evolution", "validation"]
        cells: list[list[Any]] = [
            [f"seed {each.seed}", None if score == -math.inf else score]
            for each, score in zip(self.members, self.validation, strict=True)
        ]
        if result is None:
            return page.Table("Evolutions", columns, cells)
        best = verdict.row_of(result, result["best_hand_written"])
        cells.append(["all", None])
        scored: list[ResultRow | Together] = [*self._rows(result), result["together"]]
        for row, each, judged in zip(cells, scored, self._judged(result), strict=True):
            row += [each["iqm"], each["interval"], difference_text(judged)]
            row.append(judged["conclusion"])
        columns += ["IQM", "95% interval", f"difference from {best['name']}", "verdict"]
        unseen = result.get("unseen")
        if unseen is not None and (everything := pooled(unseen)):
            other = verdict.best_function(everything)
            columns += [f"unseen: difference from {other}", "verdict there"]
            for row, judged in zip(cells, self._judged(everything), strict=True):
                row += [difference_text(judged), carried(judged)]
        note = (
            "IQM: interquartile mean of held-out seeds, the same for all. All: the mean over "
            "evolutions; its intervals take the evolution as the unit."
        )
        mean, written = [len(cells) - 1], [best["name"], None, best["iqm"], best["interval"]]
        cells.append(written + [None] * (len(columns) - len(written)))
        return page.Table("Evolutions", columns, cells, note=note, highlight=mean)

    def _rows(self, result: HeldOut) -> list[ResultRow]:
        judged = verdict.judgements(result)
        return [verdict.row_of(result, judged[each.name]["learned"]) for each in self.members]

    def _judged(self, result: HeldOut) -> list[Judgement | Together]:
        judged = verdict.judgements(result)
        return [*(judged[each.name] for each in self.members), result["together"]]


def _validation_of(member: Member, settings: EvolutionSettings) -> float:
    """Return the fitness of an evolution's result on its validation seeds.

    Returns:
        the fitness of the last mean or, for algorithms without a mean, of the best candidate;
        without validation, of the last population; -inf without records or if it diverged.
    """
    records = member.records
    key = "fitness_of_mean" if settings.evolution.validation_seeds else "fitness_mean"
    if settings.strategy.build().has_mean or key == "fitness_mean":
        records = records[-1:]
    known = [each[key] for each in records if each[key] is not None]
    return float(max(known, default=-math.inf))
