"""Training agents of programs, and of tuned hand-written functions, on the tasks of a judge."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
from annotated_types import Len
from typing_extensions import TypedDict

from metaevo import statistics
from metaevo.comparison import entries
from metaevo.comparison.cache import cached_in
from metaevo.comparison.comparison import Comparison, digest_of_text, untuned
from metaevo.comparison.evaluation import train_variants
from metaevo.comparison.protocol import comparison_of
from metaevo.comparison.unseen import aggregate, on_scale, scale_of, scores_of_ends
from metaevo.config import ConfigError, to_dict
from metaevo.config.checks import Number, Text
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.discovery.proposals.archive import Verdict
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.parts.part import LEARNED
from metaevo.runs.progress import Progress
from metaevo.runs.schema import Measured, Scale, UnseenResult, pooled
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import EvolveSettings
from metaevo.tasks.agents import Trained
from metaevo.tasks.binding import Experiment
from metaevo.tasks.memory import check_training
from metaevo.tasks.population import Population


class Baselines(TypedDict):
    """baselines/TASK.json: tuned hand-written functions on a task."""

    key: Text
    rows: Annotated[list[Measured], Len(1)]
    random: list[Number]
    reference: list[Number]


class Trials:
    """Programs of one shape, in batches of one size, so that each task compiles once."""

    def __init__(self, settings: EvolveSettings, folder: Path, batch: int):
        """Build the tasks of an evolution of a program without compiling.

        `folder` is for the tuning and the scores of hand-written functions, `batch` the number of
        programs that are trained at once.

        Raises:
            ConfigError: if a task cannot be built.
        """
        plain = replace(settings, evaluation=replace(settings.evaluation, unseen={}))
        study = LearnerStudy(plain)
        self.tasks = study.seen or {"task": _only_task(study)}
        self._folder, self._seed = folder, settings.run.seed
        self._parts = study.evolved
        self._example = jax.eval_shape(study.evolved.init, jax.random.key(0))
        rows = batch * settings.evolution.seeds_per_candidate
        count = len(devices.select(None, local=True))
        self._rows = -(-rows // count) * count
        self._populations = [
            self._population(each, self._rows // count) for each in self.tasks.values()
        ]

    def _population(self, task: Experiment, chunk_size: int) -> Population:
        own = task.settings
        small = replace(own, evolution=replace(own.evolution, chunk_size=chunk_size))
        experiment = task._replace(settings=small)
        return entries.make_population(experiment, self._parts, self._example)

    @functools.cached_property
    def _comparisons(self) -> list[Comparison]:
        learned = {LEARNED: jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype),
                                         self._example)}  # fmt: skip
        return [comparison_of(task, learned, tunes_found=False) for task in self.tasks.values()]

    def scores(self, programs: Sequence[PlainMapping], purpose: Purpose, seeds: int) -> np.ndarray:
        """Train agents of programs; return their scores [programs, seeds, tasks].

        The scores on several tasks are normalised: 0 is random play, 1 the tuned reference. NaN if
        an agent diverged or finished no episode.
        """
        tasks = [
            np.stack([each.scores for each in trained]).astype(np.float64)
            for trained in self._train(programs, purpose, seeds)
        ]
        if len(tasks) > 1:
            pairs = zip(tasks, self.scales, strict=True)
            tasks = [on_scale(each, scale) for each, scale in pairs if scale is not None]
        return np.stack(tasks, axis=-1)

    def _train(
        self, programs: Sequence[PlainMapping], purpose: Purpose, seeds: int
    ) -> list[list[Trained]]:
        """Return the scores of each program on each task."""
        padded = list(programs)
        padded += padded[-1:] * (-(-self._rows // seeds) - len(padded))
        keys = keys_for(self._seed, purpose, seeds)
        return [
            train_variants(population, keys, [{}] * len(padded), padded)[: len(programs)]
            for population in self._populations
        ]

    @functools.cached_property
    def baselines(self) -> list[Baselines]:
        """Scores of tuned hand-written functions on held-out seeds, on each task."""
        ends = 2 * (len(self.tasks) > 1)
        total = sum(
            each.frames + (ends - 1) * each.config.seeds * each.frames_per_seed
            for each in self._comparisons
        )
        (self._folder / "baselines").mkdir(parents=True, exist_ok=True)
        with Progress(total=total, desc="baselines", unit="frame", unit_scale=True) as bar:
            return [self._baselines(*pair, bar) for pair in zip(self.tasks, self._comparisons,
                                                                strict=True)]  # fmt: skip

    def _baselines(self, task: str, this: Comparison, bar: Progress) -> Baselines:
        folder = self._folder / "baselines"

        def stage(text: str) -> None:
            bar.stage(f"baselines on {task}: {text}")

        def work() -> PlainDict:
            tuning = folder / f"tuning-{task}"
            rows, _ = this.measure(tuning, bar.update, stage, learned=False)
            ends: dict[str, list[float]] = {"random": [], "reference": []}
            if len(self.tasks) > 1:
                ends = scores_of_ends(this, rows, bar.update)
            return {"rows": rows, **ends}

        key = digest_of_text(str([this.context, to_dict(this.config), len(self.tasks) > 1]))
        found: Baselines = cached_in(folder / f"{task}.json", Baselines, key, work)
        return found

    @functools.cached_property
    def scales(self) -> list[Scale | None]:
        """Scale of each of several tasks.

        Raises:
            ConfigError: if no task has one.
        """
        found = [scale_of(each["random"], each["reference"]) for each in self.baselines]
        if not any(found):
            names = ", ".join(self.tasks)
            raise ConfigError(f"tasks: the tuned reference is not better than random on {names}")
        return found

    def verdict(self, program: PlainMapping) -> Verdict:
        """Compare a program with the tuned hand-written functions on held-out seeds."""
        results: dict[str, UnseenResult] = {}
        seeds = self._comparisons[0].config.seeds
        trained = self._train([program], self._comparisons[0].purpose, seeds)
        scales = self.scales if len(self.tasks) > 1 else [None]
        each = zip(self.tasks, self._comparisons, self.baselines, trained, scales, strict=True)
        for task, this, kept, (own,), scale in each:
            learned = untuned(LEARNED)
            others = {row["name"]: row["scores"] for row in kept["rows"]}
            filled = statistics.fill_missing({learned.name: own.scores, **others})
            row = learned.measured(filled[learned.name], int(own.diverged.sum()))
            rows = [row, *kept["rows"]]
            results[task] = {**this.judge(rows), "scale": scale}
        if len(results) == 1:
            return _summary(*results.values())
        return _summary(pooled(aggregate(results)))


def _only_task(study: LearnerStudy) -> Experiment:
    """Return the experiment of settings without `tasks`, checked."""
    entries.check(study.experiment)
    example = jax.eval_shape(study.evolved.init, jax.random.key(0))
    (task,) = study.tasks
    check_training("train", task, study.settings.hyperparams, example, kept=1, at_once=1)
    return study.experiment


def _summary(result: Any) -> Verdict:
    rows = {row["name"]: row for row in result["variants"]}
    own, best = rows[result["learned"]], rows[result["best_hand_written"]]
    against = result["against_best"]
    return {
        "conclusion": result["conclusion"],
        "iqm": own["iqm"],
        "interval": list(own["interval"]),
        "seeds": own["seeds"],
        "baseline": best["name"],
        "baseline_iqm": best["iqm"],
        "difference": against["difference"],
        "difference_interval": list(against["difference_interval"]),
        "p": against["p"],
    }
