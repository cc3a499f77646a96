"""The executor of population-based training: all trials at once, resumable round by round.

The winner is a schedule: the settings of the best member's ancestors, round by round. It is judged
by training fresh agents with this schedule.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
from metaevo.tuning.objective import Progress, Watch, plain_scores
from metaevo.tuning.ranges import Choice
from metaevo.tuning.samplers import design
from metaevo.tuning.space import TRACED, Space
from metaevo.tuning.study import Outcome, Trial

if TYPE_CHECKING:
    from metaevo.training.sweeps import Trainings

SCHEDULE = "best member's schedule"
"""Name of the finalist that changes its settings as the best member did."""
HISTORY = "pbt.json"
"""File of the scores, parents and settings of every round, and of the winning schedule."""


class PopulationBased:
    """Trains all trials of a sweep as one population."""

    def __init__(self, trials: "Trainings", run: RunDirectory):
        """Bind the parts.

        Args:
            trials: of which only traced settings may vary.
            run: keeps a checkpoint of every round, and the history.
        """
        self.trials, self.config, self.run_directory = trials, trials.config, run
        self.rounds = trials.settings.pbt.rounds

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train the population to its end, from the last checkpoint, if any.

        Args:
            batch: all members that no earlier process has reported; a member's place in the
                population is that in the queue.
            watch: called for the members of the batch.
        """
        trials = self.trials
        points = design(self.config, trials.space, trials.settings.run.seed) or []
        settings = [trials.settings_of(params) for params in points]
        population = trials.population(settings[0])
        members = Pbt(
            population,
            dims(trials.space),
            trials.settings.pbt,
            self.config,
            members=len(settings),
        )
        key = jax.random.fold_in(key_for(trials.settings.run.seed, Purpose.TUNING), 2**31)
        state = members.init([each.hyperparams for each in settings], trials.keys)
        history = self._empty_history(len(settings))
        directory = self.run_directory.checkpoints
        start = 0
        if any(directory.glob("[0-9]*")):  # else it was stopped before the end of the first round
            template = (jax.device_get(state), tuple(history))
            found = checkpoint.restore(directory, template)
            state, history = members.place(found.tree[0]), History(*found.tree[1])
            start = found.index
        frames = np.diff(members.ends, prepend=0) * population.frames_per_update
        frames *= self.config.seeds * len(settings)
        watch.progress(int(frames[:start].sum()))
        for index in range(start, self.rounds):
            watch.stage(f"population-based training, round {index + 1}/{self.rounds}")
            state, record = members.round(state, index, key)
            _store(history, record, index)
            checkpoint.save(
                directory,
                index + 1,
                (jax.device_get(state), tuple(history)),
                metadata={},
                keep=trials.settings.run.keep_checkpoints,
            )
            watch.progress(int(frames[index]))
        self._tell(batch, population, members.agents(state), history, watch)

    def _tell(
        self,
        batch: Sequence[Trial],
        population: Population,
        agents: Agents,
        history: History,
        watch: Watch,
    ) -> None:
        best = winner(history)
        schedule = lineage(history, best)
        content = {**history._asdict(), "winner": best, "schedule": schedule}
        write_json_atomic(self.run_directory.path / HISTORY, content)
        _draw(self.trials.space, history, schedule, self.run_directory.figures / "pbt.png")
        scores, diverged = population.scores(agents), population.diverged(agents).sum(axis=1)
        for trial in batch:
            value = float(history.scores[-1, trial.index])
            complete = bool(np.isfinite(value))
            outcome = Outcome(
                "complete" if complete else "pruned",
                value if complete else None,
                plain_scores(scores[trial.index]),
                frames=population.num_updates * population.frames_per_update * self.config.seeds,
                fraction=1.0,
                diverged=int(diverged[trial.index]),
                final={
                    TRACED + name: float(f"{values[-1, trial.index]:.6g}")
                    for name, values in history.hyperparams.items()
                },
            )
            watch.done(trial, outcome)

    def _empty_history(self, members: int) -> History:
        shape = self.rounds, members
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
