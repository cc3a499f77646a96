"""Ablations of learned parts, trained on the held-out seeds."""

from typing import Any

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison.comparison import Comparison, train
from metaevo.comparison.entries import make_population, with_another
from metaevo.comparison.tuning import Entry
from metaevo.components import learners
from metaevo.components.component import LEARNED, Ablation, Found, Row
from metaevo.components.parts import Part
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.page import Table
from metaevo.training.agents import Trained
from metaevo.training.population import Population
from metaevo.training.task import Experiment
from metaevo.tuning.objective import Progress
from purerl.learners import HAND_WRITTEN
from purerl.types import MetaParams

AGENTS = 16
"""Agents that provide predictions and targets for figures."""
DIVERGED = 1e15
"""Limit of predictions and targets, because larger squares overflow float32."""
WITHOUT = "without"
"""Key of evaluation.json: scores with one learned part replaced by its reference."""


class PartInspector:
    """Draws and ablates learned parts."""

    def __init__(self, experiment: Experiment):
        """Bind the parts; training starts later."""
        self.experiment, self.settings = experiment, experiment.settings
        self._targets: np.ndarray | None = None

    def found(self, part: Part, meta_params: MetaParams) -> Found:
        """Return the arguments of the hooks of a part's module."""
        return Found(
            part.function,
            self.experiment.evolved.of(jax.device_get(meta_params), part.name),
            learners.find(self.settings.learner),
            self.settings.hyperparams,
            self.value_targets,
            self.settings.train.num_updates,
            part.config,
        )

    def value_targets(self) -> np.ndarray:
        """Train a few agents half-way with hand-written parts; later calls reuse the result.

        Returns:
            [2, samples] predictions and targets of agents that did not diverge; a single error of
            one if all diverged.
        """
        if self._targets is None:
            self._targets = self._observe()
        return self._targets

    def _observe(self) -> np.ndarray:
        settings = self.settings
        task = self.experiment.task(self.experiment.references(), None)
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

    def observations(self, meta_params: MetaParams) -> dict[str, dict[str, float]]:
        """Return the numbers of the parts' `observe` hooks by part."""
        found = {}
        for part in self.experiment.evolved.parts.values():
            observe = part.slot.hook(part.module, "observe")
            if observe is not None:
                found[part.name] = observe(self.found(part, meta_params))
        return found

    def ablations(self, meta_params: MetaParams) -> list[tuple[Part, Ablation]]:
        """Return the ablations of the parts' modules and, with several parts, one without each."""
        found: list[tuple[Part, Ablation]] = []
        parts = self.experiment.evolved.parts
        if len(parts) > 1:
            named = self.experiment.evolved.references(self.settings.learner)
            for part in parts.values():
                row = Row(
                    {"part": part.name, "replaced by": named[part.slot.name]}, named[part.slot.name]
                )
                found.append((part, Ablation(WITHOUT, [row])))
        for part in parts.values():
            ablations = part.slot.hook(part.module, "ablations")
            if ablations is not None:
                found += [(part, each) for each in ablations(self.found(part, meta_params))]
        return found


def run_ablations(
    ablations: list[tuple[Part, Ablation]],
    comparison: Comparison,
    experiment: Experiment,
    progress: Progress,
) -> PlainDict:
    """Train the rows of `PartInspector.ablations` on held-out seeds.

    Returns:
        tables by key, with `iqm`, `interval` and `seeds` in every row, and further keys for
        evaluation.json.
    """
    keys = keys_for(comparison.seed, Purpose.HELD_OUT, comparison.config.ablation_seeds)
    result: PlainDict = {}
    trained: dict[str, list[tuple[Row, Trained]]] = {}
    for part, ablation in ablations:
        made: dict[Any, Entry] = {}
        rows = [
            (_entry(part, row, comparison, experiment, made), dict(row.settings))
            for row in ablation.rows
        ]
        scores = train(rows, keys, progress)
        trained.setdefault(ablation.key, []).extend(zip(ablation.rows, scores, strict=True))
        result |= ablation.more
    for key, table in trained.items():
        values = statistics.fill_missing({i: each.scores for i, (_, each) in enumerate(table)})
        result[key] = [{**row.labels, **_summary(values[i])} for i, (row, _) in enumerate(table)]
    return result


def _entry(
    part: Part,
    row: Row,
    comparison: Comparison,
    experiment: Experiment,
    made: dict[Any, Entry],
) -> Entry:
    """Return the entry for a row, an existing one if possible."""
    learned = comparison.entries[comparison.found]
    if row.function == LEARNED:
        return learned
    if len(experiment.evolved.parts) == 1 and row.function in comparison.names:
        return comparison.entries[str(row.function)]
    function: Any = row.function
    if isinstance(function, str):
        function = HAND_WRITTEN[part.slot.name][function]
    both = {"found": jax.device_get(learned.meta_params), "other": row.meta_params}
    if function not in made:
        functions = with_another(experiment.evolved, part.slot.name, function)
        made[function] = Entry(make_population(experiment, functions, both), both, learned.space)
    return made[function]._replace(meta_params=both)


def _summary(scores: np.ndarray) -> PlainDict:
    summary = statistics.summarise(scores)
    return {"iqm": summary.iqm, "interval": list(summary.interval), "seeds": summary.seeds}


def table_of_parts(result: PlainMapping) -> list[Table]:
    """Return the table of scores without each part, if there are several parts."""
    if WITHOUT not in result:
        return []
    rows = [
        [row["part"], row["replaced by"], row["iqm"], row["interval"]] for row in result[WITHOUT]
    ]
    note = "One learned part is replaced by its hand-written reference, untuned."
    columns = ["without", "replaced by", "IQM", "95% interval"]
    return [Table("Ablation: one part at a time", columns, rows, note=note)]
