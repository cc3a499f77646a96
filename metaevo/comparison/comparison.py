"""Tuned contenders on held-out seeds: who wins, by how much, and how sure is that.

comparison = Comparison(...)
result = comparison.run(...)      # the content of evaluation.json, and the curves for figures
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison.evaluation import Contender, EvaluationConfig, Progress, Scores
from metaevo.comparison.racing import cost
from metaevo.comparison.tuning import plan, tune
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.training.train_learner import Normalisation
from metaevo.tuning.space import Space

UNTUNED = {"tuning_settings": 0, "tuning_seeds": 0, "tuning_rounds": []}
"""What evaluation.json says of tuning where contenders have nothing to tune."""


class Entry(NamedTuple):
    """One who takes part."""

    contender: Contender
    """may be that of other entries: one program, in which `meta_params` selects the function"""
    meta_params: Any
    space: Space
    """over what it is tuned, of `metaevo.comparison.tuning.tuning_space`"""


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
        tunes_found: bool = True,
        purpose: Purpose = Purpose.HELD_OUT,
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
            tunes_found: whether what was discovered is tuned too.
            purpose: of the fresh seeds.
        """
        self.entries, self.config, self.seed = dict(entries), config, seed
        names = list(self.entries)
        self.found, self.discovered, self.names = names[0], names[:learned], names[learned:]
        self.normalisation, self.context = normalisation, context
        self.tunes_found, self.purpose = tunes_found, purpose
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
    def tuned(self) -> list[str]:
        """The entries that are tuned, if anything is."""
        return [*self.discovered, *self.names] if self.tunes_found else self.names

    @property
    def frames(self) -> int:
        """Environment steps of the whole protocol (tuning and held-out), for a progress bar."""
        tuning = sum(cost(self.plans[name].rounds) for name in self.tuned)
        variants = len(self.entries)
        if tuning:
            variants += 1 + len(self.discovered) * self.tunes_found
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
        keys = keys_for(self.seed, self.purpose, self.config.seeds)
        scores = self.train(variants, keys, progress)
        fitness = statistics.fill_missing({name: each.fitness for name, each in scores.items()})
        values = {name: self.comparable(each) for name, each in fitness.items()}
        diverged = {name: int(each.diverged.sum()) for name, each in scores.items()}
        plan = self.plans[self.found]
        result = summary(variants, values, diverged, self.discovered) | {
            "tuning_settings": plan.settings,
            "tuning_seeds": plan.first_seeds if plan.settings else 0,
            "tuning_rounds": [[each.settings, each.seeds] for each in plan.rounds],
        }
        return result, scores

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
        for number, name in enumerate(self.tuned, start=1):
            contender, meta_params, space = self.entries[name]
            stage(f"tuning {name}, {number} of {len(self.tuned)}")
            # Whatever scores depend on; a run that was continued has found something else since.
            found = digest(meta_params) if name in self.discovered else ""
            key = [self.context, self.plans[name], self.seed, found]
            key += [space.to_plain(), self.config.sampler]
            tuned = tune(
                contender,
                meta_params,
                space,
                self.config,
                self.plans[name],
                directory=directory / f"{_file_name(name)}-{digest_of_text(str(key))}",
                seed=self.seed,
                comparable=self.comparable,
                progress=progress,
            )
            variants.append(Variant(f"{name} (tuned)", name, tuned.best, tuned.frames))
        return variants

    def comparable(self, fitness: np.ndarray) -> np.ndarray:
        """Scores [seeds] of one environment, or normalised ones [seeds, tasks] of several."""
        if self.normalisation is None:
            return fitness[:, 0]
        low, high = (np.asarray(bounds) for bounds in self.normalisation)
        return np.asarray((fitness - low) / (high - low))


def summary(
    variants: Sequence[Variant],
    values: Mapping[str, np.ndarray],
    diverged: Mapping[str, int],
    discovered: Sequence[str],
) -> dict[str, Any]:
    """Say how good every variant is, and how what was discovered compares with each of them.

    Args:
        variants: of every entry the untuned one first; the last one of each is judged.
        values: their scores by name, [seeds] or [seeds, tasks], all finite; all on the same seeds.
        diverged: how many agents of each have diverged.
        discovered: the entries that evolutions have found.
    """
    judged = {each.function: each.name for each in variants}
    learned = [judged.pop(name) for name in discovered]
    hand_written, baselines = list(judged), list(judged.values())
    strata = {name: statistics.strata_of(each) for name, each in values.items()}
    others = [strata[name] for name in baselines]
    against, pairs = {}, []
    for this in learned:
        strongest = statistics.against_strongest(strata[this], others, shared_seeds=True)
        best = baselines[strongest.place]  # the same for all
        verdict = statistics.plain(strongest.contrast, strongest.verdict)
        against[this] = {"learned": this, "other": best, **verdict._asdict()}
        own = this.partition(" (")[0]
        for other in values:
            if other != this and other.partition(" (")[0] in (own, *hand_written):
                compared = statistics.compare(values[this], values[other], shared_seeds=True)
                pairs.append({"learned": this, "other": other, **compared._asdict()})
    rows = []
    for variant in variants:
        of_variant = statistics.summarise(values[variant.name])
        rows.append(
            {
                "name": variant.name,
                "function": variant.function,
                "settings": variant.settings,
                "tuning_frames": variant.tuning_frames,
                "seeds": of_variant.seeds,
                "scores": values[variant.name].tolist(),
                "iqm": of_variant.iqm,
                "interval": list(of_variant.interval),
                "mean": of_variant.mean,
                "diverged": diverged[variant.name],
            }
        )
    result = {
        "variants": rows,
        "pairs": pairs,
        "learned": learned[0],
        "best_hand_written": best,
        "conclusion": against[learned[0]]["conclusion"],
        "against_best": against[learned[0]],
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


def _file_name(name: str) -> str:
    return name.replace(" + ", "+").replace(" ", "_")


def digest(tree: Any) -> str:
    """Return what tells trees of arrays apart."""
    leaves = (np.asarray(leaf) for leaf in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()[:16]


def digest_of_text(text: str) -> str:
    """Return what tells texts apart, short enough for a file name."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
