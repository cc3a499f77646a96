"""The held-out comparison: tuned contenders on fresh seeds, with a verdict.

comparison = Comparison(...)
result, scores = comparison.run(...)
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison.evaluation import EvaluationConfig, train_variants
from metaevo.comparison.racing import cost
from metaevo.comparison.tuning import Entry, plan, tune
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.runs.schema import HeldOut, Judgement, Measured, ResultRow, Together
from metaevo.tasks.agents import Trained
from metaevo.tuning.objective import Progress
from purerl.types import PyTree

Settings = Mapping[str, float | None]
"""Hyperparameters that differ from the run's, by name."""


class Variant(NamedTuple):
    """An entry with one choice of hyperparameters: a row of the comparison."""

    name: str
    function: str
    """name of the entry"""
    settings: Settings
    """hyperparameters that differ from the run's"""
    tuning_frames: int

    def measured(self, scores: np.ndarray, diverged: int = 0) -> Measured:
        """Return the row with finite scores [seeds] or [seeds, tasks] and a number of agents."""
        row = {**self._asdict(), "settings": dict(self.settings)}
        return cast(Measured, {**row, "diverged": diverged, "scores": scores.tolist()})


def untuned(name: str) -> Variant:
    """Return the variant of an entry with the hyperparameters of the run."""
    return Variant(f"{name} (same hyperparameters)", name, {}, 0)


class Comparison:
    """Tuning of all entries on equal budgets, then training on held-out seeds."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        config: EvaluationConfig,
        *,
        seed: int,
        evolution_frames: int,
        context: str = "",
        learned: int = 1,
        tunes_found: bool = True,
        purpose: Purpose = Purpose.HELD_OUT,
    ):
        """Plan the tuning without compiling.

        Args:
            entries: entries by name: the learned ones, then the reference, then other baselines.
            config: the section `evaluation`.
            seed: seed of the run.
            evolution_frames: environment steps of the evolution, for `tuning_seeds: null`.
            context: other settings that scores depend on; tuning with another context is repeated.
            learned: number of learned entries, one for each evolution.
            tunes_found: whether learned entries are tuned too.
            purpose: purpose of the held-out seeds.
        """
        self.entries, self.config, self.seed = dict(entries), config, seed
        names = list(self.entries)
        self.found, self.discovered, self.names = names[0], names[:learned], names[learned:]
        self.context, self.tunes_found, self.purpose = context, tunes_found, purpose
        self.frames_per_seed = self.entries[self.found].population.frames
        self.plans = {
            name: plan(entry, config, evolution_frames) for name, entry in self.entries.items()
        }

    @property
    def tuned(self) -> list[str]:
        """Names of the entries to tune; none without a search space."""
        if not self.plans[self.found].rounds:
            return []
        return [*self.discovered, *self.names] if self.tunes_found else self.names

    @property
    def untuned(self) -> list[str]:
        """Names of the entries to train with the hyperparameters of the run."""
        return [*self.discovered, *(self.names[:1] if self.tuned else self.names)]

    @property
    def frames(self) -> int:
        """Environment steps of tuning and held-out training, for a progress bar."""
        tuning = sum(cost(self.plans[name].rounds) for name in self.tuned)
        variants = len(self.untuned) + len(self.tuned)
        return (tuning + variants * self.config.seeds) * self.frames_per_seed

    def run(
        self,
        directory: Path,
        progress: Progress | None = None,
        stage: Callable[[str], Any] = lambda name: None,
    ) -> tuple[HeldOut, dict[str, Trained]]:
        """Measure and judge all variants; arguments of `measure`.

        Returns:
            the result, and the scores of each variant by name.
        """
        rows, scores = self.measure(directory, progress, stage)
        return self.judge(rows), scores

    def measure(
        self,
        directory: Path,
        progress: Progress | None,
        stage: Callable[[str], Any],
        *,
        learned: bool = True,
    ) -> tuple[list[Measured], dict[str, Trained]]:
        """Tune every entry, then train every variant on the held-out seeds.

        Args:
            directory: stores the tuning of each entry, so that an interrupted comparison resumes.
            progress: called after each chunk of agents.
            stage: called with the name of each stage.
            learned: whether to train the learned entries too.

        Returns:
            rows with finite scores, where missing ones count as the worst, and the scores of each
            variant by name.
        """
        variants = self._variants(directory, progress, stage)
        if not learned:
            variants = [each for each in variants if each.function not in self.discovered]
        stage("held-out seeds")
        keys = keys_for(self.seed, self.purpose, self.config.seeds)
        scores = self.train(variants, keys, progress)
        fitness = statistics.fill_missing({name: each.scores for name, each in scores.items()})
        rows = [
            each.measured(fitness[each.name], int(scores[each.name].diverged.sum()))
            for each in variants
        ]
        return rows, scores

    def judge(self, rows: Sequence[Measured]) -> HeldOut:
        """Return the result for the rows of all variants."""
        plan = self.plans[self.found]
        return {
            **summary(rows, self.discovered),
            "tuning_settings": plan.settings,
            "tuning_seeds": plan.first_seeds if plan.settings else 0,
            "tuning_rounds": [[each.settings, each.seeds] for each in plan.rounds],
            "frames_per_agent": self.frames_per_seed,
        }

    def train(
        self, variants: list[Variant], keys: jax.Array, progress: Progress | None = None
    ) -> dict[str, Trained]:
        """Train variants on keys [seeds], batched by compiled program; return scores by name."""
        found: dict[str, Trained] = {}
        populations = {id(each.population): each.population for each in self.entries.values()}
        for population in populations.values():
            own = [v for v in variants if self.entries[v.function].population is population]
            settings = [each.settings for each in own]
            meta_params = [self.entries[each.function].meta_params for each in own]
            if own:
                trained = train_variants(population, keys, settings, meta_params, progress)
                found |= {each.name: scores for each, scores in zip(own, trained, strict=True)}
        return {each.name: found[each.name] for each in variants}

    def _variants(
        self, directory: Path, progress: Progress | None, stage: Callable[[str], Any]
    ) -> list[Variant]:
        """Tune every entry and return all variants, the learned ones first; arguments of `run`."""
        variants = [untuned(name) for name in self.untuned]
        for number, name in enumerate(self.tuned, start=1):
            entry = self.entries[name]
            stage(f"tuning {name}, {number} of {len(self.tuned)}")
            # All inputs of the scores. A resumed evolution has other meta-parameters.
            found = digest(entry.meta_params) if name in self.discovered else ""
            key = [self.context, self.plans[name], self.seed, found]
            key += [entry.space.to_plain(), self.config.sampler]
            best = tune(
                entry,
                self.config,
                self.plans[name],
                directory=directory / f"{_file_name(name)}-{digest_of_text(str(key))}",
                seed=self.seed,
                progress=progress,
            )
            frames = cost(self.plans[name].rounds) * self.frames_per_seed
            variants.append(Variant(f"{name} (tuned)", name, best, frames))
        return variants


def summary(rows: Sequence[Measured], discovered: Sequence[str]) -> HeldOut:
    """Summarise every variant and compare the learned ones with all others.

    Args:
        rows: all variants with finite scores on the same seeds; the last variant of each entry
            enters the comparison.
        discovered: names of the learned entries, one for each evolution.

    Returns:
        the content of evaluation.json, as of contenders without tuning.
    """
    values = {row["name"]: np.asarray(row["scores"]) for row in rows}
    judged = {row["function"]: row["name"] for row in rows}
    learned = {name: judged.pop(name) for name in discovered}
    baselines = list(judged.values())
    strata = {name: statistics.strata_of(each) for name, each in values.items()}
    others = [strata[name] for name in baselines]
    against: list[Judgement] = []
    pairs: list[Judgement] = []
    for function, this in learned.items():
        place, found = statistics.against_strongest(strata[this], others, shared_seeds=True)
        best = baselines[place]  # the same for all
        against.append(_judgement(this, best, found))
        for row in rows:
            other = row["name"]
            if other != this and row["function"] in (function, *judged):
                found = statistics.compare(values[this], values[other], shared_seeds=True)
                pairs.append(_judgement(this, other, found))
    result: HeldOut = {
        "variants": [_summarised(row) for row in rows],
        "pairs": pairs,
        "learned": against[0]["learned"],
        "best_hand_written": best,
        "conclusion": against[0]["conclusion"],
        "against_best": against[0],
        "tuning_settings": 0,
        "tuning_seeds": 0,
        "tuning_rounds": [],
    }
    if len(learned) > 1:
        together = statistics.together([strata[name] for name in learned.values()], others)
        better = sum(each["conclusion"] == "better" for each in against)
        counts = {"evolutions": len(learned), "better": better}
        result["evolutions"] = against
        result["together"] = cast(Together, {**counts, **together._asdict()})
    return result


def _summarised(row: Measured) -> ResultRow:
    found = statistics.summarise(row["scores"])
    interval = list(found.interval)
    about = {"seeds": found.seeds, "iqm": found.iqm, "interval": interval, "mean": found.mean}
    return cast(ResultRow, {**row, **about})


def _judgement(learned: str, other: str, found: statistics.Comparison) -> Judgement:
    return cast(Judgement, {"learned": learned, "other": other, **found._asdict()})


def _file_name(name: str) -> str:
    return name.replace(" + ", "+").replace(" ", "_")


def digest(tree: PyTree) -> str:
    """Hash the leaves of a tree."""
    leaves = (np.asarray(leaf) for leaf in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()[:16]


def digest_of_text(text: str) -> str:
    """Hash a text to 16 characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
