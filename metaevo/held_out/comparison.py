"""Tuned contenders on held-out seeds: who wins, by how much, and how sure is that.

comparison = Comparison(...)
result = comparison.run(...)      # the content of evaluation.json, and the curves for figures
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.agents.train_learner import Normalisation
from metaevo.held_out.evaluation import (
    LEARNED,
    Contender,
    EvaluationConfig,
    Progress,
    Scores,
    without_diverged,
)
from metaevo.held_out.racing import cost
from metaevo.held_out.tuning import plan, tune
from metaevo.parallel.seeding import Purpose, keys_for
from metaevo.search.space import Space
from purerl.learners import HAND_WRITTEN, LEARNERS


class Variant(NamedTuple):
    """One row of the comparison."""

    name: str
    function: str
    """LEARNED, or the name of a hand-written function"""
    settings: dict[str, float]
    """hyperparams that differ from the experiment's"""
    tuning_frames: int


def hand_written(slot: str, learner: str = "ppo") -> tuple[list[str], Callable[..., jax.Array]]:
    """Return the names of a slot's hand-written functions, and all of them as one slot function.

    Its `meta_params` is the index of the name, so that one compiled program serves all baselines.
    """
    names = list(LEARNERS[learner].slots[slot])
    functions = [HAND_WRITTEN[slot][name] for name in names]

    def chosen(index, context, *arguments):
        return jax.lax.select_n(index, *(each(None, context, *arguments) for each in functions))

    return names, chosen


class Comparison:
    """The held-out protocol for one discovered component."""

    def __init__(
        self,
        learned: Contender,
        baselines: Contender,
        baseline_names: list[str],
        meta_params: Any,
        config: EvaluationConfig,
        space: Space,
        *,
        seed: int,
        evolution_frames: int,
        normalisation: Normalisation | None,
        context: str = "",
    ):
        """Bind the parts.

        Args:
            learned: the discovered component in the slot.
            baselines: `hand_written(slot)` in the slot.
            baseline_names: of which the first is the reference.
            meta_params: what was discovered.
            config: how much to tune and to test.
            space: over what, of `metaevo.held_out.tuning.tuning_space`.
            seed: of the experiment.
            evolution_frames: what evolution used, for `tuning_seeds: null`.
            normalisation: of several environments; scores are then normalised.
            context: whatever else scores depend on; tuning kept under another one is not used.
        """
        self.learned, self.baselines, self.names = learned, baselines, baseline_names
        self.meta_params, self.config, self.space, self.seed = meta_params, config, space, seed
        self.normalisation, self.context = normalisation, context
        self.plan = plan(
            config,
            space,
            learned.hyperparams,
            frames_per_seed=learned.frames_per_seed,
            evolution_frames=evolution_frames,
        )

    @property
    def frames(self) -> int:
        """Environment steps of the whole protocol (tuning and held-out), for a progress bar."""
        contenders = 1 + len(self.names)
        tuning = contenders * cost(self.plan.rounds)
        variants = contenders + 2 if tuning else contenders
        return (tuning + variants * self.config.seeds) * self.learned.frames_per_seed

    def run(
        self, directory: Path, progress: Progress | None = None
    ) -> tuple[dict[str, Any], dict[str, Scores]]:
        """Tune every contender, then train every variant on the held-out seeds.

        Args:
            directory: keeps the tuning of each contender, so that an interrupted comparison goes
                on.
            progress: called with the number of frames just done.

        Returns:
            the content of evaluation.json and the scores of every variant by its name.
        """
        variants = self._variants(directory, progress)
        keys = keys_for(self.seed, Purpose.HELD_OUT, self.config.seeds)
        scores = self.train(variants, keys, progress)
        return self._summary(variants, scores), scores

    def train(
        self, variants: list[Variant], keys: jax.Array, progress: Progress | None = None
    ) -> dict[str, Scores]:
        """Train variants on keys [seeds], all of a contender in one go; scores by their names."""
        scores: dict[str, Scores] = {}
        for contender, is_learned in ((self.learned, True), (self.baselines, False)):
            own = [each for each in variants if (each.function == LEARNED) == is_learned]
            if own:
                settings = [each.settings for each in own]
                meta_params = [self._meta_params(each.function) for each in own]
                results = contender.run(keys, settings, meta_params, progress)
                scores |= {each.name: result for each, result in zip(own, results, strict=True)}
        return {each.name: scores[each.name] for each in variants}

    def _meta_params(self, function: str) -> Any:
        return self.meta_params if function == LEARNED else np.int32(self.names.index(function))

    def _variants(self, directory: Path, progress: Progress | None) -> list[Variant]:
        same = "same hyperparameters"
        variants = [Variant(f"{LEARNED} ({same})", LEARNED, {}, 0)]
        if not self.plan.rounds:
            return variants + [Variant(f"{name} ({same})", name, {}, 0) for name in self.names]
        reference = self.names[0]
        variants.append(Variant(f"{reference} ({same})", reference, {}, 0))
        for name in (LEARNED, *self.names):
            is_learned = name == LEARNED
            # Whatever scores depend on; a run that was continued has found something else since.
            found = _digest(self.meta_params) if is_learned else ""
            key = [self.context, self.plan, self.seed, self.config.combinations, found]
            key += [self.space.to_plain(), self.config.sampler]
            tuned = tune(
                self.learned if is_learned else self.baselines,
                self._meta_params(name),
                self.space,
                self.config,
                self.plan,
                directory=directory / f"{name}-{_digest_of_text(str(key))}",
                seed=self.seed,
                comparable=self._comparable,
                progress=progress,
            )
            variants.append(Variant(f"{name} (tuned)", name, tuned.best, tuned.frames))
        return variants

    def _summary(self, variants: list[Variant], scores: dict[str, Scores]) -> dict[str, Any]:
        fitness = without_diverged(scores)
        values = {name: self._comparable(each) for name, each in fitness.items()}
        tuned = [each for each in variants if each.tuning_frames] or variants
        learned = next(each.name for each in tuned if each.function == LEARNED)
        baselines = [each.name for each in tuned if each.function != LEARNED]
        strata = {name: statistics.strata_of(each) for name, each in values.items()}
        strongest = statistics.against_strongest(
            strata[learned], [strata[name] for name in baselines]
        )
        pairs = []
        for name in values:
            if name != learned:
                compared = statistics.compare(values[learned], values[name])
                pairs.append({"learned": learned, "other": name, **compared._asdict()})
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
                    "diverged": scores[variant.name].diverged,
                }
            )
        verdict = statistics.plain(strongest.contrast, strongest.verdict)
        best = baselines[strongest.place]
        return {
            "variants": rows,
            "pairs": pairs,
            "learned": learned,
            "best_hand_written": best,
            "conclusion": verdict.conclusion,
            "against_best": {"learned": learned, "other": best, **verdict._asdict()},
            "tuning_settings": self.plan.settings,
            "tuning_seeds": self.plan.first_seeds if self.plan.settings else 0,
            "tuning_rounds": [[each.settings, each.seeds] for each in self.plan.rounds],
        }

    def _comparable(self, fitness: np.ndarray) -> np.ndarray:
        """Scores [seeds] of one environment, or normalised ones [seeds, tasks] of several."""
        if self.normalisation is None:
            return fitness[:, 0]
        low, high = (np.asarray(bounds) for bounds in self.normalisation)
        return np.asarray((fitness - low) / (high - low))


def _digest(tree: Any) -> str:
    leaves = (np.asarray(leaf) for leaf in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()[:16]


def _digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
