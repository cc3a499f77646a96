"""The executor of population-based training: all trials at once, resumable round by round.

The winner is a schedule: the settings of the best member's ancestors, round by round. It is judged
by training fresh agents with this schedule.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from metaevo.config import ConfigError
from metaevo.config.files import read_json, write_json_atomic
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.reports import plots
from metaevo.runs import checkpoint, schema
from metaevo.runs.run_directory import RunDirectory
from metaevo.training.agents import Agents
from metaevo.training.pbt import Dim, History, Pbt, lineage, train_schedule, winner
from metaevo.training.population import Population
from metaevo.tuning.objective import Outcome, Progress, Watch, plain_scores
from metaevo.tuning.ranges import Choice
from metaevo.tuning.space import TRACED, Space
from metaevo.tuning.study import Trial

if TYPE_CHECKING:
    from metaevo.training.sweeps import Trainings

SCHEDULE = "best member's schedule"
"""Name of the finalist that changes its settings as the best member did."""
HISTORY = "pbt.json"
"""File of the scores, parents and settings of every round, and of the winning schedule."""
MEMBERS = "pbt_members.json"
"""The file that keeps the members that the population began with, by their places in the design."""


class PopulationBased:
    """Trains all trials of a sweep as one population."""

    def __init__(self, trials: "Trainings", run: RunDirectory):
        """Bind the parts.

        Args:
            trials: of which only traced settings may vary.
            run: keeps a checkpoint of every round, and the history.
        """
        self.trials, self.config, self.run_directory = trials, trials.config, run
        self.rounds = trials.settings.pbt

    def batch_size(self, first_index: int, remaining: int) -> int:
        """All of them."""
        return remaining

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train the population to its end, from the last checkpoint if there is one.

        Args:
            batch: all members that no earlier process has reported.
            watch: called for the members of the batch.
        """
        first = self._first_settings(batch)
        settings = [self.trials.settings_of(params) for params in first.values()]
        population = self.trials.population(settings[0])
        members = Pbt(
            population, dims(self.trials.space), self.rounds, self.config, members=len(settings)
        )
        key = jax.random.fold_in(key_for(self.trials.settings.run.seed, Purpose.TUNING), 2**31)
        state = members.init([each.hyperparams for each in settings], self.trials.keys)
        history = self._empty_history(len(settings))
        directory = self.run_directory.checkpoints
        expected = {"members": list(first)}
        start = 0
        if any(directory.glob("[0-9]*")):  # else it was stopped before the end of the first round
            template = (jax.device_get(state), tuple(history))
            found = checkpoint.restore(directory, template, expected=expected)
            state, history = members.place(found.tree[0]), History(*found.tree[1])
            start = found.index
        frames = np.diff(members.ends, prepend=0) * population.frames_per_update
        frames *= self.config.seeds * len(settings)
        watch.progress(int(frames[:start].sum()))
        for index in range(start, self.rounds.rounds):
            watch.group(index, self.rounds.rounds, "population-based training")
            state, record = members.round(state, index, key)
            _store(history, record, index)
            checkpoint.save(
                directory,
                index + 1,
                (jax.device_get(state), tuple(history)),
                metadata=expected,
                keep=self.trials.settings.run.keep_checkpoints,
            )
            watch.progress(int(frames[index]))
        places = {index: place for place, index in enumerate(first)}
        self._tell(
            [(places[trial.index], trial) for trial in batch], members, state, history, watch
        )

    def _first_settings(self, batch: Sequence[Trial]) -> dict[int, dict[str, Any]]:
        """Return the first settings of all members, by their places in the design.

        Some may have been reported before a process was killed: then they are not in the batch.

        Raises:
            ConfigError: if a trial of the batch is no member of the population that began here.
        """
        path = self.run_directory.path / MEMBERS
        asked = {trial.index: trial.params for trial in sorted(batch, key=lambda each: each.index)}
        if not path.exists():
            write_json_atomic(path, asked)
            return asked
        kept = read_json(path, schema.Members)
        population = {int(index): params for index, params in kept.items() if index.isdecimal()}
        for index, params in asked.items():
            if population.get(index) != params:
                raise ConfigError(f"{path}: trial {index} of the study is not in this population")
        return population

    def _tell(
        self,
        batch: Sequence[tuple[int, Trial]],
        members: Pbt,
        state: Any,
        history: History,
        watch: Watch,
    ) -> None:
        population, agents = members.population, members.agents(state)
        best = winner(history)
        schedule = lineage(history, best)
        write_json_atomic(
            self.run_directory.path / HISTORY,
            {
                "scores": history.scores,
                "parents": history.parents,
                "hyperparams": history.hyperparams,
                "winner": best,
                "schedule": schedule,
            },
        )
        _draw(self.trials.space, history, schedule, self.run_directory.figures / "pbt.png")
        steps, curves = population.returns(agents)
        for member, trial in batch:
            value = float(history.scores[-1, member])
            complete = bool(np.isfinite(value))
            attributes = {
                "scores": plain_scores(population.scores(agents)[member]),
                "frames": population.num_updates * population.frames_per_update * self.config.seeds,
                "fraction": 1.0,
                "diverged": int(population.diverged(agents)[member].sum()),
                "final": {
                    TRACED + name: float(f"{values[-1, member]:.6g}")
                    for name, values in history.hyperparams.items()
                },
            }
            watch.done(
                trial,
                Outcome(
                    "complete" if complete else "pruned",
                    value if complete else None,
                    attributes,
                    (steps, curves[member]),
                ),
            )

    def _empty_history(self, members: int) -> History:
        shape = self.rounds.rounds, members
        return History(
            np.zeros(shape, np.float32),
            np.zeros(shape, np.int32),
            {dim.name: np.zeros(shape, np.float32) for dim in dims(self.trials.space)},
        )


def replay(
    population: Population, run: RunDirectory, keys: jax.Array, progress: Progress
) -> Agents:
    """Train fresh agents with the schedule that won.

    Args:
        population: of the settings before the sweep.
        run: with the history of the population.
        keys: [seeds].
        progress: called with the environment steps just done.
    """
    history = read_json(run.path / HISTORY, schema.Schedule)
    schedule = {name: np.asarray(values) for name, values in history["schedule"].items()}
    return train_schedule(population, schedule, keys, progress)


def dims(space: Space) -> list[Dim]:
    """Return the settings that a population explores.

    Raises:
        ConfigError: for a choice of something else than numbers.
    """
    found = []
    for key, entry in space.entries.items():
        name = key.removeprefix(TRACED)
        if isinstance(entry, Choice):
            if not all(isinstance(value, int | float) for value in entry.values):
                raise ConfigError(f"space.{key}: pbt can only choose between numbers")
            found.append(Dim(name, choices=tuple(float(value) for value in entry.values)))
        else:
            found.append(Dim(name, entry.low, entry.high, entry.is_log, entry.is_integer))
    return found


def _store(history: History, record: History, index: int) -> None:
    history.scores[index] = record.scores
    history.parents[index] = record.parents
    for name, values in record.hyperparams.items():
        history.hyperparams[name][index] = values


def _draw(space: Space, history: History, schedule: dict[str, np.ndarray], path: Path) -> None:
    """Draw scores and settings of all members over the rounds, the winner's ancestors thick."""
    panels = {"fitness of the round": history.scores, **history.hyperparams}
    best = {"fitness of the round": history.scores.max(axis=1), **schedule}
    figure = plots._figure(1.0 + 1.9 * len(panels))
    rounds = np.arange(1, len(history.scores) + 1)
    rows = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(rows, panels.items(), strict=True):
        plots._style(axes, "round" if axes is rows[-1] else "", name)
        axes.plot(rounds, np.where(np.isfinite(values), values, np.nan), color=plots.LIGHT)
        axes.plot(rounds, best[name], color=plots.LEARNED, linewidth=2.2)
        if getattr(space.entries.get(TRACED + name), "is_log", False):
            axes.set_yscale("log")
    plots._save(figure, path)
