"""The evolutions of a run that differ only in their seeds; the best one represents the run."""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.config.plain import PlainMapping
from metaevo.evolution.problem import MetaParams
from metaevo.judging import tables
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.reports import page
from metaevo.reports.page import cell, estimate
from metaevo.runs import checkpoint
from metaevo.runs.finding import has_evolved
from metaevo.runs.resume import forget_end
from metaevo.runs.run import Run, how_to_continue
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.study import Study


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


class Evolutions:
    """The evolutions of a run in which all are done."""

    def __init__(self, path: Path, study: Study):
        """Choose the best on validation seeds."""
        self.members = [
            Member(seed, RunDirectory(path / f"seed_{seed}")) for seed in study.settings.run.seeds
        ]
        self.validation = [validation_of(each.records, study) for each in self.members]
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

    def text(self) -> str:
        """Describe the spread of the fitness in validation and the evolution that is loaded."""
        low, high = cell(min(self.validation)), cell(max(self.validation))
        return (
            f"{len(self.members)} evolutions, on validation seeds from {low} to {high}; the best "
            f"there, seed {self.chosen.seed}, is the result of the run."
        )

    def table(self, scores: Mapping[str, Scores]) -> page.Table:
        """Return a table of the evolutions, of their mean and of the best baseline."""
        columns = ["evolution", "validation"]
        cells: list[list[Any]] = [
            [f"seed {each.seed}", None if score == -math.inf else score]
            for each, score in zip(self.members, self.validation, strict=True)
        ]
        own = scores.get(SCORES)
        if own is None or not own.baselines or not own.pooled:
            return page.Table("Evolutions", columns, cells)
        cells.append(["all", None])
        names = [*(each.name for each in self.members), LEARNED]
        best = own.verdict(LEARNED).baseline
        columns += ["IQM", "95% interval", f"difference from {best}", "verdict"]
        for row, name in zip(cells, names, strict=True):
            row += [*own.iqm(name), *_against(own, name, best, is_unseen=False)]
        unseen = scores.get(UNSEEN)
        if unseen is not None and unseen.pooled:
            other = unseen.verdict(LEARNED).baseline
            columns += [f"unseen: difference from {other}", "verdict there"]
            for row, name in zip(cells, names, strict=True):
                row += _against(unseen, name, other, is_unseen=True)
        note = (
            "IQM: interquartile mean of held-out seeds, the same for all. All: the mean over "
            "evolutions; its intervals include the variation between them."
        )
        mean, written = [len(cells) - 1], [best, None, *own.iqm(best)]
        cells.append(written + [None] * (len(columns) - len(written)))
        return page.Table("Evolutions", columns, cells, note=note, highlight=mean)


def _against(scores: Scores, name: str, other: str, *, is_unseen: bool) -> list[str]:
    """Return the difference of a contender from another one, and its verdict."""
    found = scores.difference(name, other)
    word = scores.verdict(name, margin=tables.margin_of(scores, is_unseen=is_unseen)).label
    return [estimate(found, sign=True), word]


def validation_of(records: Sequence[PlainMapping], study: Study) -> float:
    """Return the fitness of an evolution's result on its validation seeds, by its records.

    Returns:
        the fitness of the last mean or, for algorithms without a mean, of the best candidate;
        without validation, of the last population; -inf without records or if it diverged.
    """
    key = "fitness_of_mean" if study.settings.evolution.validation_seeds else "fitness_mean"
    if study.strategy.has_mean or key == "fitness_mean":
        records = records[-1:]
    known = (float(each[key]) for each in records if each[key] is not None)
    return max(filter(math.isfinite, known), default=-math.inf)


def evolve_all(
    run: Run[EvolutionSettings], evolve: Callable[[Run[EvolutionSettings]], None]
) -> None:
    """Call a function for each evolution of a run that is not done, one after another."""
    config = run.settings.run
    forget_end(run.directory)
    for place, seed in enumerate(config.seeds, start=1):
        run.stop.check()
        settings = replace(run.settings, run=replace(config, seed=seed, evolution_seeds=1))
        path = run.directory.path / f"seed_{seed}"
        directory = RunDirectory(path)  # of which one file may be lost
        begun = directory.config_path, directory.metrics_path, directory.checkpoints
        resume = run.saved is not None and any(map(os.path.lexists, begun))
        directory = RunDirectory.open(path) if resume else RunDirectory.create(path, path.name)
        with (
            directory.locked(f"continue with: {how_to_continue(run.directory)}"),
            contextlib.closing(Run(run.kind, settings, directory, run.stop)) as own,
        ):
            if own.saved is not None and _is_saved(own.directory, settings.evolution.generations):
                continue
            text = f"evolution {place} of {config.evolution_seeds}: seed {seed}"
            print(text, file=sys.stderr, flush=True)
            evolve(own)


def _is_saved(directory: RunDirectory, generations: int) -> bool:
    """Return whether an evolution is done, and its result saved."""
    if not (has_evolved(directory, generations) and directory.meta_params.exists()):
        return False
    done = checkpoint.load_tree(directory.meta_params)[1].get("generation")
    return bool(done == len(directory.read_metrics("generation")))
