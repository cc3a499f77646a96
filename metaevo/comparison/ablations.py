"""What was found, taken apart: trained on the held-out seeds beside the contenders."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison.comparison import Comparison, Entry
from metaevo.comparison.entries import Functions, MakeContender, references
from metaevo.comparison.evaluation import LEARNED, Progress, Scores
from metaevo.comparison.settings import JudgedSettings
from metaevo.components.component import Ablation, Found, Row
from metaevo.components.parts import Part, of_key
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.page import Table
from metaevo.training.population import Population
from metaevo.training.task import Parts
from purerl.learners import HAND_WRITTEN, LEARNERS

AGENTS = 16
"""whose predictions and targets a picture shows"""
DIVERGED = 1e15
"""A prediction or target of that size: the squares of larger ones would leave float32."""
WITHOUT = "without"
"""In evaluation.json: every learned part replaced by its reference, one at a time."""


class Laboratory:
    """Draws and ablates the parts that one evolution has found."""

    def __init__(self, settings: JudgedSettings, parts: Parts, meta_params: Any):
        """Bind the parts; nothing is trained yet.

        Args:
            settings: of the experiment.
            parts: what was evolved.
            meta_params: that were found.
        """
        self.settings, self.parts = settings, parts
        self.given, self.meta_params = meta_params, jax.device_get(meta_params)
        self._targets: np.ndarray | None = None

    def of(self, meta_params: Any) -> "Laboratory":
        """Return one of what another evolution has found, which shares what no evolution changes.

        Args:
            meta_params: that it has found.
        """
        other = copy.copy(self)
        other.given, other.meta_params = meta_params, jax.device_get(meta_params)
        return other

    def found(self, part: Part) -> Found:
        """Return what the functions of a part's module are given."""
        return Found(
            part.function,
            self.parts.evolved.of(self.meta_params, part.name),
            LEARNERS[self.settings.learner],
            self.settings.hyperparams,
            self.value_targets,
            self.settings.train.num_updates,
            part.config,
        )

    def value_targets(self) -> np.ndarray:
        """Train a few agents half-way with hand-written parts, once.

        Returns:
            [2, samples]: predictions, targets, without those of agents that diverged; if all have,
            a single error of one.
        """
        if self._targets is None:
            self._targets = self._observe()
        return self._targets

    def _observe(self) -> np.ndarray:
        settings = self.settings
        functions = references(self.parts, settings.learner)
        task = self.parts.tasks(settings, functions, None)[0]
        population = Population(task, settings.hyperparams, None, settings.fitness, agents=AGENTS)
        untrained = population.init(keys_for(settings.run.seed, Purpose.ILLUSTRATION, AGENTS))
        agents = population.advance(untrained, population.num_updates // 2)

        def observe(state):
            learner: Any = task.learner
            return learner.value_targets(state, settings.hyperparams, task.env_params)

        seen = jax.device_get(jax.jit(jax.vmap(observe))(population.states(agents)))
        errors = np.stack([each.ravel() for each in seen])
        usable = errors[:, np.all(np.abs(errors) < DIVERGED, axis=0)]
        return usable if usable.size else np.array([[1.0], [0.0]], np.float32)

    def observations(self) -> dict[str, dict[str, float]]:
        """Return what the parts' modules want to remember of them, by the parts' names."""
        found = {}
        for part in self.parts.evolved.parts.values():
            observe = part.slot.hook(part.module, "observe")
            if observe is not None:
                found[part.name] = observe(self.found(part))
        return found

    def ablations(self, single_task: bool) -> list[tuple[Part, Ablation]]:
        """Return what the parts' modules ask for, and of several parts what is left without each.

        Args:
            single_task: whether there is one environment only, as modules expect.
        """
        found: list[tuple[Part, Ablation]] = []
        parts = self.parts.evolved.parts
        if len(parts) > 1:
            named = self.parts.evolved.references(self.settings.learner)
            for part in parts.values():
                row = Row(
                    {"part": part.name, "replaced by": named[part.slot.name]}, named[part.slot.name]
                )
                found.append((part, Ablation(WITHOUT, [row])))
        for part in parts.values() if single_task else ():
            ablations = part.slot.hook(part.module, "ablations")
            if ablations is not None:
                found += [(part, each) for each in ablations(self.found(part))]
        return found

    def run(
        self,
        ablations: list[tuple[Part, Ablation]],
        comparison: Comparison,
        contender: MakeContender,
        progress: Progress,
    ) -> dict[str, Any]:
        """Train all rows on held-out seeds.

        Args:
            ablations: of `ablations`.
            comparison: holds the compiled contenders.
            contender: from functions for the slots, and an example of their meta-parameters.
            progress: called with the number of frames just done.

        Returns:
            the tables by their keys, with `iqm`, `interval` and `seeds` in every row, and what else
            is to stand in evaluation.json.
        """
        keys = keys_for(
            self.settings.run.seed, Purpose.HELD_OUT, self.settings.evaluation.ablation_seeds
        )
        result: dict[str, Any] = {}
        trained: dict[str, list[tuple[Row, Scores]]] = {}
        for part, ablation in ablations:
            scores = self._train(part, ablation.rows, comparison, contender, keys, progress)
            trained.setdefault(ablation.key, []).extend(zip(ablation.rows, scores, strict=True))
            result |= ablation.more
        for key, table in trained.items():
            values = statistics.fill_missing(
                {str(i): each.fitness for i, (_, each) in enumerate(table)}
            )
            result[key] = [
                {**row.labels, **_summary(comparison.comparable(each))}
                for (row, _), each in zip(table, values.values(), strict=True)
            ]
        return result

    def _train(
        self,
        part: Part,
        rows: list[Row],
        comparison: Comparison,
        contender: MakeContender,
        keys: jax.Array,
        progress: Progress,
    ) -> list[Scores]:
        """Train rows, those of a program in one go; scores in their order."""
        programs: dict[Any, list[tuple[int, Entry, Row]]] = {}
        made: dict[Any, Entry] = {}
        for index, row in enumerate(rows):
            entry = self._entry(part, row, comparison, contender, made)
            programs.setdefault(id(entry.contender), []).append((index, entry, row))
        scores: dict[int, Scores] = {}
        for group in programs.values():
            results = group[0][1].contender.run(
                keys,
                [dict(row.settings) for _, _, row in group],
                [entry.meta_params for _, entry, _ in group],
                progress,
            )
            scores |= {index: each for (index, _, _), each in zip(group, results, strict=True)}
        return [scores[index] for index in range(len(rows))]

    def _entry(
        self,
        part: Part,
        row: Row,
        comparison: Comparison,
        contender: MakeContender,
        made: dict[Any, Entry],
    ) -> Entry:
        """Return who trains a row; of the contenders, where one of them does the same."""
        alone = len(self.parts.evolved.parts) == 1
        if row.function == LEARNED:
            return comparison.entries[comparison.found]
        if alone and row.function in comparison.names:
            return comparison.entries[str(row.function)]
        function: Any = row.function
        if isinstance(function, str):
            function = HAND_WRITTEN[part.slot.name][function]
        both = {"found": self.meta_params, "row": row.meta_params}
        if function not in made:
            made[function] = Entry(
                contender(_with(part, function, self.parts), both),
                both,
                comparison.entries[comparison.found].space,
            )
        return made[function]._replace(meta_params=both)


def _summary(scores: np.ndarray) -> dict[str, Any]:
    summary = statistics.summarise(scores)
    return {"iqm": summary.iqm, "interval": list(summary.interval), "seeds": summary.seeds}


def _with(part: Part, function: Callable[..., Any], parts: Parts) -> Functions:
    """What was found, with another function in the slot of one part."""
    learned = {slot: of_key("found", each) for slot, each in parts.evolved.functions().items()}
    return {**learned, part.slot.name: of_key("row", function)}


def table_of_parts(result: Mapping[str, Any]) -> list[Table]:
    """Return the table of what is left without each part, where there are several."""
    if WITHOUT not in result:
        return []
    rows = [
        [row["part"], row["replaced by"], row["iqm"], row["interval"]] for row in result[WITHOUT]
    ]
    note = "What was found with one part replaced by its hand-written reference, untuned."
    columns = ["without", "replaced by", "IQM", "95% interval"]
    return [Table("Ablation: one part at a time", columns, rows, note=note)]
