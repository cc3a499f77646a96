"""Tuned contenders on held-out seeds: who wins, by how much, and how sure is that.

comparison = Comparison(...)
result = comparison.run(...)      # the content of evaluation.json, and the curves for figures
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.agents.train_learner import Normalisation
from metaevo.held_out.evaluation import (
    Contender,
    EvaluationConfig,
    Progress,
    Scores,
)
from metaevo.held_out.racing import cost
from metaevo.held_out.tuning import plan, tune
from metaevo.parallel.seeding import Purpose, keys_for
from metaevo.search.space import Space


class Entry(NamedTuple):
    """One who takes part."""

    contender: Contender
    """may be that of other entries: one program, in which `meta_params` selects the function"""
    meta_params: Any
    space: Space
    """over what it is tuned, of `metaevo.held_out.tuning.tuning_space`"""


class Variant(NamedTuple):
    """One row of the comparison."""

    name: str
    function: str
    """the name of the entry"""
    settings: dict[str, float]
    """hyperparams that differ from the experiment's"""
    tuning_frames: int


class Comparison:
    """The held-out protocol for what evolution has found."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        config: EvaluationConfig,
        *,
        seed: int,
        evolution_frames: int,
        normalisation: Normalisation | None,
        context: str = "",
        learned: int = 1,
    ):
        """Bind the parts.

        Args:
            entries: by their names: first what was discovered, then the reference; of several
                discoveries, the first one is that of the ablations.
            config: how much to tune and to test.
            seed: of the experiment.
            evolution_frames: what evolution used, for `tuning_seeds: null`.
            normalisation: of several environments; scores are then normalised.
            context: whatever else scores depend on; tuning kept under another one is not used.
            learned: how many were discovered, by as many evolutions.
        """
        self.entries, self.config, self.seed = dict(entries), config, seed
        names = list(self.entries)
        self.found, self.discovered, self.names = names[0], names[:learned], names[learned:]
        self.normalisation, self.context = normalisation, context
        self.frames_per_seed = self.entries[self.found].contender.frames_per_seed
        self.plans = {
            name: plan(
                config,
                entry.space,
                entry.contender.hyperparams,
                frames_per_seed=self.frames_per_seed,
                evolution_frames=evolution_frames,
            )
            for name, entry in self.entries.items()
        }

    @property
    def frames(self) -> int:
        """Environment steps of the whole protocol (tuning and held-out), for a progress bar."""
        tuning = sum(cost(each.rounds) for each in self.plans.values())
        variants = len(self.entries) + (len(self.discovered) + 1 if tuning else 0)
        return (tuning + variants * self.config.seeds) * self.frames_per_seed

    def run(
        self,
        directory: Path,
        progress: Progress | None = None,
        stage: Callable[[str], Any] = lambda name: None,
    ) -> tuple[dict[str, Any], dict[str, Scores]]:
        """Tune every contender, then train every variant on the held-out seeds.

        Args:
            directory: keeps the tuning of each contender, so that an interrupted comparison goes
                on.
            progress: called with the number of frames just done.
            stage: called with the name of what begins.

        Returns:
            the content of evaluation.json and the scores of every variant by its name.
        """
        variants = self._variants(directory, progress, stage)
        stage("held-out seeds")
        keys = keys_for(self.seed, Purpose.HELD_OUT, self.config.seeds)
        scores = self.train(variants, keys, progress)
        return self._summary(variants, scores), scores

    def train(
        self, variants: list[Variant], keys: jax.Array, progress: Progress | None = None
    ) -> dict[str, Scores]:
        """Train variants on keys [seeds], all of a program in one go; scores by their names."""
        scores: dict[str, Scores] = {}
        programs = {id(entry.contender): entry.contender for entry in self.entries.values()}
        for contender in programs.values():
            own = [v for v in variants if self.entries[v.function].contender is contender]
            if own:
                settings = [each.settings for each in own]
                meta_params = [self.entries[each.function].meta_params for each in own]
                results = contender.run(keys, settings, meta_params, progress)
                scores |= {each.name: result for each, result in zip(own, results, strict=True)}
        return {each.name: scores[each.name] for each in variants}

    def _variants(
        self, directory: Path, progress: Progress | None, stage: Callable[[str], Any]
    ) -> list[Variant]:
        same = "same hyperparameters"
        variants = [Variant(f"{name} ({same})", name, {}, 0) for name in self.discovered]
        if not self.plans[self.found].rounds:
            return variants + [Variant(f"{name} ({same})", name, {}, 0) for name in self.names]
        reference = self.names[0]
        variants.append(Variant(f"{reference} ({same})", reference, {}, 0))
        entries = enumerate(self.entries.items(), start=1)
        for number, (name, (contender, meta_params, space)) in entries:
            stage(f"tuning {name}, {number} of {len(self.entries)}")
            # Whatever scores depend on; a run that was continued has found something else since.
            found = _digest(meta_params) if name in self.discovered else ""
            key = [self.context, self.plans[name], self.seed, found]
            key += [space.to_plain(), self.config.sampler]
            tuned = tune(
                contender,
                meta_params,
                space,
                self.config,
                self.plans[name],
                directory=directory / f"{_file_name(name)}-{_digest_of_text(str(key))}",
                seed=self.seed,
                comparable=self.comparable,
                progress=progress,
            )
            variants.append(Variant(f"{name} (tuned)", name, tuned.best, tuned.frames))
        return variants

    def _summary(self, variants: list[Variant], scores: dict[str, Scores]) -> dict[str, Any]:
        fitness = statistics.fill_missing({name: each.fitness for name, each in scores.items()})
        values = {name: self.comparable(each) for name, each in fitness.items()}
        tuned = [each for each in variants if each.tuning_frames] or variants
        learned = [each.name for each in tuned if each.function in self.discovered]
        baselines = [each.name for each in tuned if each.function not in self.discovered]
        strata = {name: statistics.strata_of(each) for name, each in values.items()}
        others = [strata[name] for name in baselines]
        against, pairs = {}, []
        for this in learned:
            strongest = statistics.against_strongest(strata[this], others)
            best = baselines[strongest.place]  # the same for all
            verdict = statistics.plain(strongest.contrast, strongest.verdict)
            against[this] = {"learned": this, "other": best, **verdict._asdict()}
            own = this.partition(" (")[0]
            for other in values:
                if other != this and other.partition(" (")[0] in (own, *self.names):
                    compared = statistics.compare(values[this], values[other])
                    pairs.append({"learned": this, "other": other, **compared._asdict()})
        rows = []
        for variant in variants:
            summary = statistics.summarise(values[variant.name])
            rows.append(
                {
                    "name": variant.name,
                    "function": variant.function,
                    "settings": variant.settings,
                    "tuning_frames": variant.tuning_frames,
                    "seeds": summary.seeds,
                    "scores": values[variant.name].tolist(),
                    "iqm": summary.iqm,
                    "interval": list(summary.interval),
                    "mean": summary.mean,
                    "diverged": int(scores[variant.name].diverged.sum()),
                }
            )
        plan = self.plans[self.found]
        result = {
            "variants": rows,
            "pairs": pairs,
            "learned": learned[0],
            "best_hand_written": best,
            "conclusion": against[learned[0]]["conclusion"],
            "against_best": against[learned[0]],
            "tuning_settings": plan.settings,
            "tuning_seeds": plan.first_seeds if plan.settings else 0,
            "tuning_rounds": [[each.settings, each.seeds] for each in plan.rounds],
        }
        if len(learned) > 1:
            found = statistics.together([strata[name] for name in learned], others)
            result["evolutions"] = list(against.values())
            result["together"] = {
                "evolutions": len(learned),
                "better": sum(each["conclusion"] == "better" for each in against.values()),
                "iqm": found.mean.value,
                "interval": list(found.mean.interval),
                "difference": found.difference.value,
                "difference_interval": list(found.difference.interval),
                "p": found.p,
                "conclusion": found.verdict,
            }
        return result

    def comparable(self, fitness: np.ndarray) -> np.ndarray:
        """Scores [seeds] of one environment, or normalised ones [seeds, tasks] of several."""
        if self.normalisation is None:
            return fitness[:, 0]
        low, high = (np.asarray(bounds) for bounds in self.normalisation)
        return np.asarray((fitness - low) / (high - low))


def _file_name(name: str) -> str:
    return name.replace(" + ", "+").replace(" ", "_")


def _digest(tree: Any) -> str:
    leaves = (np.asarray(leaf) for leaf in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()[:16]


def _digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
