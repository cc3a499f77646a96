"""Population-based training (Jaderberg et al. 2017): settings that change while agents learn.

Members are ranked by the fitness of the round. After each round the worst members become copies of
the best ones and try other settings. The winner is a schedule: the settings of the best member's
ancestors, round by round. It is judged by training fresh agents with this schedule.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.config import ConfigError, files
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import plots
from metaevo.runs import checkpoint, schema
from metaevo.runs.run_directory import RunDirectory
from metaevo.training.agents import Agents
from metaevo.training.fitness import FitnessConfig, mean_rewards
from metaevo.training.fitness import scores as scores_of
from metaevo.training.population import Population
from metaevo.training.sweeps import Trainings
from metaevo.tuning.config import PbtConfig, SweepConfig
from metaevo.tuning.objective import BEFORE, Watch, statistic
from metaevo.tuning.ranges import Choice, Entry, Params, at, nearest
from metaevo.tuning.samplers import design
from metaevo.tuning.space import TRACED, Space
from metaevo.tuning.study import Outcome, Record, Trial
from purerl.types import EpisodeSums, Hyperparams

HISTORY = "pbt.json"
"""File of the scores, parents and settings of every round, and of the winning schedule."""

SCHEDULE = "best member's schedule"
"""Name of the finalist that changes its settings as the best member of a population did."""

Schedule = dict[str, np.ndarray]
"""Settings by name, each [rounds]"""


class History(NamedTuple):
    """Scores, copies and settings of all rounds."""

    scores: np.ndarray
    """[rounds, members] the objective of each round; minus infinity where a seed diverged"""
    parents: np.ndarray
    """[rounds, members] index of the member that each one copied; its own if it was not replaced"""
    hyperparams: dict[str, np.ndarray]
    """[rounds, members] the searched settings that a round was trained with"""


class State(NamedTuple):
    """A population between two rounds."""

    agents: Agents
    scores: np.ndarray
    """[members, seeds] of the latest round; NaN before the first"""


class Pbt:
    """A population of members, each on several seeds.

    Random draws depend on the seed and the round only, so a resumed run continues the same way.
    """

    def __init__(
        self,
        population: Population,
        space: Space,
        config: PbtConfig,
        sweep: SweepConfig,
        *,
        seed: int,
    ):
        """Bind the parts; `seed` is that of the copies and changes."""
        self.population, self.config, self.sweep, self.seed = population, config, sweep, seed
        self.entries = searched(space)
        self.ends = round_ends(population.num_updates, config.rounds)

    def init(self, settings: Sequence[Hyperparams], keys: jax.Array) -> State:
        """Return the untrained members, each with its settings and all keys [seeds]."""
        agents = self.population.init(keys, settings)
        return State(agents, np.full((len(settings), len(keys)), np.nan))

    def empty_history(self, members: int) -> History:
        """Return a history of all rounds to fill in."""
        shape = self.config.rounds, members
        return History(
            np.zeros(shape, np.float32),
            np.zeros(shape, np.int32),
            {name: np.zeros(shape, np.float32) for name in self.entries},
        )

    def round(
        self,
        state: State,
        index: int,
        history: History,
        progress: Callable[[int], Any] | None = None,
    ) -> State:
        """Train one round, then exploit and explore; the last round only trains.

        `history` gets its scores, parents and settings.
        """
        agents, before = state.agents, _totals(state.agents)
        members, seeds = state.scores.shape
        agents = self.population.advance(agents, self.ends[index] - agents.updates, progress)
        finite = np.asarray(agents.rows.finite)
        recent = jax.tree.map(np.subtract, _totals(agents), before)
        found = round_scores(self.population.fitness, recent, finite, state.scores.ravel())
        scores = found.reshape(members, seeds)
        values = np.array([statistic(each, self.sweep) for each in scores], dtype=float)
        usable = finite.reshape(members, seeds).all(axis=1) & np.isfinite(values)
        values = np.where(usable, values, -np.inf)
        rng = np.random.default_rng([self.seed, index])
        is_last = index + 1 == self.config.rounds
        parents = np.arange(members) if is_last else self._parents(values, rng)
        hyperparams = agents.rows.hyperparams
        used = {name: getattr(hyperparams, name)[::seeds] for name in self.entries}
        history.scores[index], history.parents[index] = values, parents
        for name, each in used.items():
            history.hyperparams[name][index] = each
        agents = self.population.select(agents, parents.tolist())
        explored = {name: each[parents] for name, each in used.items()}
        for member in np.flatnonzero(parents != np.arange(members)):
            for name, entry in self.entries.items():
                explored[name][member] = self._explore(entry, explored[name][member], rng)
        repeated = {name: np.repeat(each, seeds) for name, each in explored.items()}
        rows = agents.rows.replace(hyperparams=agents.rows.hyperparams.replace(**repeated))
        return State(agents._replace(rows=rows), scores[parents])

    def _parents(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the index of the member that each one copies [members]; its own if it stays."""
        number = max(1, int(self.config.truncation * len(values)))
        order = np.argsort(-values, kind="stable")
        best = [each for each in order[:number] if np.isfinite(values[each])]
        replaced = ~np.isfinite(values)
        replaced[order[-number:]] = True
        parents = np.arange(len(values))
        if best:
            parents[replaced] = rng.choice(best, np.sum(replaced))
        return parents

    def _explore(self, entry: Entry, value: float, rng: np.random.Generator) -> float:
        """Return another value of a setting: drawn from its range, or near this one."""
        if rng.random() < self.config.resample:
            return float(at(entry, rng.random()))
        if isinstance(entry, Choice):
            return value
        return nearest(entry, value * rng.choice(self.config.perturb))


class Populations(Trainings):
    """The trials of a sweep, trained as one population in which a trial's place is its index."""

    def batch_size(self) -> int:
        """All at once."""
        return self.config.trials

    def run(self, batch: Sequence[Trial], watch: Watch) -> None:
        """Train the whole population, and decide the trials that no earlier process has decided."""
        if watch.run is None:
            raise ConfigError("sweep.scheduler = 'pbt': needs a run directory")
        seed = self.settings.run.seed
        points = design(self.config, self.space, seed) or []
        settings = [self.settings_of(params) for params in points]
        population = self.program(settings[0])
        members = Pbt(population, self.space, self.settings.pbt, self.config, seed=seed)
        state = members.init([each.hyperparams for each in settings], self.keys)
        agents, history = train_population(
            members, state, watch.run, watch, keep=self.settings.run.keep_checkpoints
        )
        scores, diverged = population.scores(agents), population.diverged(agents).sum(axis=1)
        for trial in batch:
            value = float(history.scores[-1, trial.index])
            complete = bool(np.isfinite(value))
            outcome = Outcome(
                "complete" if complete else "pruned",
                value if complete else None,
                files.plain(scores[trial.index]),
                frames=population.frames * self.config.seeds,
                fraction=1.0,
                diverged=int(diverged[trial.index]),
                final={
                    TRACED + name: float(f"{values[-1, trial.index]:.6g}")
                    for name, values in history.hyperparams.items()
                },
            )
            watch.done(trial, outcome)

    def finalists(self, best: Record) -> dict[str, Params]:
        """Return the schedule of the winner, its last settings, and those before the sweep."""
        final = best.final_params
        return {SCHEDULE: final, "its last settings all the time": final, BEFORE: {}}

    def confirm(
        self, name: str, params: Params, seeds: int, watch: Watch
    ) -> tuple[np.ndarray, int]:
        """Train settings, or the schedule, on seeds that no search has seen."""
        if name != SCHEDULE or watch.run is None:
            return super().confirm(name, params, seeds, watch)
        population = self.program(self.settings_of({}))
        keys = keys_for(self.settings.run.seed, Purpose.HELD_OUT, seeds)
        agents = train_schedule(population, read_schedule(watch.run), keys, watch.progress)
        return population.scores(agents)[0], int(population.diverged(agents).sum())

    def check_scheduler(self) -> None:
        """Raise `ConfigError` if settings of population-based training contradict each other."""
        config = self.config
        searched(self.space)
        updates, rounds = self.settings.train.num_updates, self.settings.pbt.rounds
        if rounds > updates:
            raise ConfigError(f"pbt.rounds = {rounds}: must be at most the {updates} updates")
        if config.trials < 2:
            raise ConfigError(f"sweep.trials = {config.trials}: pbt needs at least 2 members")
        if config.sampler not in ("random", "sobol"):
            raise ConfigError(
                f"sweep.sampler = {config.sampler!r}: pbt begins with settings that are "
                "independent of each other; allowed: random, sobol"
            )


def train_population(
    pbt: Pbt, state: State, run: RunDirectory, watch: Watch, *, keep: int
) -> tuple[Agents, History]:
    """Train an untrained population to its end, or from the last checkpoint of the run.

    `run` gets a checkpoint of every round, of which it keeps `keep`, the history and its figure.
    """
    seeds, start = state.agents.seeds, 0
    history = pbt.empty_history(state.agents.settings)
    if checkpoint.indices(run.checkpoints):
        found = checkpoint.restore(run.checkpoints, (state.agents.rows, state.scores, history))
        rows, scores, history = found.tree
        start = found.index
        state = State(Agents(rows, seeds, pbt.ends[start - 1]), scores)
        watch.progress(pbt.ends[start - 1] * pbt.population.frames_per_update * scores.size)
    for index in range(start, pbt.config.rounds):
        watch.stage(f"population-based training, round {index + 1}/{pbt.config.rounds}")
        state = pbt.round(state, index, history, watch.progress)
        tree = state.agents.rows, state.scores, history
        checkpoint.save(run.checkpoints, index + 1, tree, keep=keep)
    best = winner(history)
    schedule = lineage(history, best)
    content = {**history._asdict(), "winner": best, "schedule": schedule}
    files.write_json_atomic(run.path / HISTORY, content)
    _draw(pbt.entries, history, schedule, run.figures / "pbt.png")
    return state.agents, history


def searched(space: Space) -> dict[str, Entry]:
    """Return the ranges and choices that a population explores, by the names of hyperparams.

    Raises:
        ConfigError: for a static setting, or a choice of something else than numbers.
    """
    if space.static:
        raise ConfigError(
            f"sweep.scheduler = 'pbt' changes agents in mid-training, which static settings do "
            f"not allow: {', '.join(space.static)}; allowed: {TRACED}*"
        )
    for key, entry in space.entries.items():
        if isinstance(entry, Choice) and not all(isinstance(x, int | float) for x in entry.values):
            raise ConfigError(f"space.{key}: pbt can only choose between numbers")
    return {key.removeprefix(TRACED): entry for key, entry in space.entries.items()}


def round_ends(num_updates: int, rounds: int) -> list[int]:
    """Return the updates that have been taken after each round."""
    return [(index + 1) * num_updates // rounds for index in range(rounds)]


def round_scores(
    config: FitnessConfig, recent: EpisodeSums, finite: np.ndarray, previous: np.ndarray
) -> np.ndarray:
    """Return the fitness of a round [agents]; its final return is its mean return.

    The fields of `recent` are sums over the round. Where the fitness needs an episode and none
    finished, it is the `previous` score, or the reward per step in the first round, before which
    that is NaN.
    """
    found = scores_of(config, jax.tree.map(lambda sums: sums[:, np.newaxis], recent), finite)
    bridged = np.where(np.isnan(previous), mean_rewards(recent), previous)
    return np.where(np.isnan(found), bridged, found)


def winner(history: History) -> int:
    """Return the best member of the last round."""
    return int(np.argmax(history.scores[-1]))


def lineage(history: History, member: int) -> Schedule:
    """Return the settings with which a member and its ancestors were trained."""
    rounds = len(history.parents)
    line = np.full(rounds, member)
    for index in range(rounds - 2, -1, -1):
        line[index] = history.parents[index, line[index + 1]]
    return {name: values[np.arange(rounds), line] for name, values in history.hyperparams.items()}


def read_schedule(run: RunDirectory) -> Schedule:
    """Return the winning schedule of a run.

    Raises:
        ConfigError: if its file is missing or damaged.
    """
    history = files.read_json(run.path / HISTORY, schema.Schedule)
    return {name: np.asarray(values) for name, values in history["schedule"].items()}


def train_schedule(
    population: Population,
    schedule: Schedule,
    keys: jax.Array,
    progress: Callable[[int], Any] | None = None,
) -> Agents:
    """Train fresh agents with settings that change from round to round, as `lineage` gives them.

    `population` has the hyperparams that the schedule leaves out.
    """
    rounds = len(next(iter(schedule.values())))
    settings = [
        population.hyperparams.replace(**{name: float(each[i]) for name, each in schedule.items()})
        for i in range(rounds)
    ]
    agents = population.init(keys, settings[:1])
    for setting, end in zip(settings, round_ends(population.num_updates, rounds), strict=True):
        agents = population.with_hyperparams(agents, [setting])
        agents = population.advance(agents, end - agents.updates, progress)
    return agents


def _totals(agents: Agents) -> EpisodeSums:
    return jax.tree.map(lambda windows: np.asarray(windows).sum(axis=-1), agents.rows.episodes)


def _draw(entries: dict[str, Entry], history: History, schedule: Schedule, path: Path) -> None:
    panels = {"fitness of the round": history.scores, **history.hyperparams}
    best = {"fitness of the round": history.scores.max(axis=1), **schedule}
    figure = plots.new_figure(1.0 + 1.9 * len(panels))
    rounds = np.arange(1, len(history.scores) + 1)
    rows = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(rows, panels.items(), strict=True):
        plots.style_axes(axes, "round" if axes is rows[-1] else "", name)
        axes.plot(rounds, np.where(np.isfinite(values), values, np.nan), color=plots.LIGHT)
        axes.plot(rounds, best[name], color=plots.LEARNED, linewidth=2.2)
        if getattr(entries.get(name), "log", False):
            axes.set_yscale("log")
    plots.save_figure(figure, path)
