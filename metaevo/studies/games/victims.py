"""Build learners that hear a channel, and compare channels.

Every channel talks to the same fresh agents: to the victim of the evolution with other seeds, and
to unseen victims (another learning rate, another network, another learner).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo.components import learners
from metaevo.components.channels import ChannelConfig, talking
from metaevo.components.component import LEARNED
from metaevo.config import ConfigError, from_dict, merge, show, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import plots
from metaevo.reports.page import Table
from metaevo.runs.progress import Progress
from metaevo.studies.games import network_diagnostics
from metaevo.studies.games.results import GameResult, Meetings, mean
from metaevo.studies.games.settings import SIGNS, CheapTalkSettings, TalkSettings, VictimConfig
from metaevo.training.checks import check_training
from metaevo.training.fitness import Windows, all_finite, mean_returns
from metaevo.training.task import (
    LearnerConfig,
    TaskConfig,
    make_environments,
    make_learner,
)
from metaevo.training.train_learner import Task, fitness_of, train, working_set
from purerl.envs.talking import TalkParams
from purerl.learners import num_frames
from purerl.parts import channels
from purerl.parts.evaluation import mean_return
from purerl.types import Channel, EpisodeSums, Hyperparams

CURVE_POINTS = 64
KEYS = "victims", "names", "channels"
"""Names of the table in evaluation.json."""
WHEN = {"mean_return": "over training", "last_quarter": "in its last quarter"}
"""Measures of a victim, in words."""
NOTE = (
    "Of finished episodes, means over fresh seeds with 95% intervals; the victim of evolution "
    "comes first. Fitness in the comparison is that of the channel: for an adversary it is minus "
    "that of the victim."
)


class Victim(NamedTuple):
    """A learner with its settings."""

    name: str
    learner: str
    train: LearnerConfig
    hyperparams: Hyperparams
    message_dropout: float = 0.0


class VictimResult(NamedTuple):
    """Results of training victims; each field [channels, seeds]."""

    fitness: Any
    """fitness of the victim; NaN if it diverged or no episode ended"""
    mean_return: Any
    """mean return of the episodes of its training"""
    last_quarter: Any
    """mean return of the episodes that ended in the last quarter of its training"""
    curve: EpisodeSums
    """fields [..., points]"""
    diverged: Any


def make_task(
    victim: Victim, task: TaskConfig, config: ChannelConfig, *, speaks: bool = False
) -> Task:
    """Bind a victim to its environment and a silent channel.

    Args:
        victim: the learner.
        task: the task that it learns.
        config: settings of the channel.
        speaks: whether the channel's parameters are a `channels.Speaker`; by default weights.

    Raises:
        ConfigError: if the observations of the victim or of the environment are not vectors.
    """
    if not isinstance(task.env, str):
        raise ConfigError(f"task.env = {show(task.env)}: a channel is for one environment")
    (environment,) = make_environments(task, victim.learner)
    messenger = config.messenger
    channel: Channel = channels.speak(messenger) if speaks else channels.messages(messenger)
    env, size = talking(environment, channel, config, victim.learner)
    name, _, env_params = environment

    def example(key):
        weights = messenger.init(key, np.zeros(size, np.float32))
        return channels.speaker(LEARNED, key, weights) if speaks else weights

    silent = jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(example, jax.random.key(0))
    )
    params = TalkParams(env_params, silent, config.scale)
    return Task(name, make_learner(victim, env, params), params)


def with_channel(task: Task, channel: Any) -> Task:
    """Return a victim's task with the parameters of a channel."""
    return task._replace(env_params=task.env_params.replace(channel=channel))


def last_quarter(episodes: EpisodeSums) -> jax.Array:
    """Return the mean return of the episodes that ended in the last quarter of a training.

    Args:
        episodes: each field [U]; NaN where none ended.
    """
    count = max(1, len(episodes.episodes) // 4)
    return mean_return(jax.tree.map(lambda sums: sums[-count:], episodes))


def trained_victim(settings: TalkSettings) -> Victim:
    """Return the victim of the evolution."""
    return Victim(settings.learner, settings.learner, settings.train, settings.hyperparams)


def all_victims(settings: CheapTalkSettings) -> list[Victim]:
    """Return the victim of the evolution, then the unseen ones.

    Raises:
        ConfigError: naming a victim that cannot be built.
    """
    found = [trained_victim(settings)]
    for name, change in settings.evaluation.victims.items():
        try:
            if name in (settings.learner, ""):
                raise ConfigError("it needs a name of its own")
            found.append(_changed(name, change, settings))
        except ConfigError as error:
            raise ConfigError(f"evaluation.victims.{name}: {error}") from None
    return found


def _changed(name: str, change: VictimConfig, settings: CheapTalkSettings) -> Victim:
    learner = change.learner or settings.learner
    entry = learners.find(learner)
    built: PlainDict = {}
    for section, kind in (("train", entry.config), ("hyperparams", entry.hyperparams)):
        same = getattr(settings, section) if learner == settings.learner else kind()
        built[section] = from_dict(kind, merge(to_dict(same), getattr(change, section)))
    victim = Victim(name, learner, **built, message_dropout=change.message_dropout)
    task = make_task(victim, settings.task, settings.channel, speaks=True)
    check_training("evaluation.seeds", task, victim.hyperparams, None, kept=1, at_once=1)
    return victim


def judge(
    settings: CheapTalkSettings,
    learned: Mapping[str, channels.Weights],
    figures: Path,
    check_stop: Callable[[], None],
) -> GameResult:
    """Evaluate evolved and hand-written channels on fresh victims.

    Args:
        settings: settings of the evolution.
        learned: weights of the evolved channels by name.
        figures: folder for the learning curves.
        check_stop: raises if the run should stop; called between chunks of agents.
    """
    weights = {**learned, **dict.fromkeys(channels.HAND_WRITTEN, next(iter(learned.values())))}
    names, seeds = list(weights), settings.evaluation.seeds
    keys = keys_for(settings.run.seed, Purpose.HELD_OUT, seeds)
    speakers = [
        jax.device_get(jax.vmap(lambda key, name=name: _speaker(name, key, weights[name]))(keys))
        for name in names
    ]
    key_data = np.tile(np.asarray(jax.random.key_data(keys)), (len(names), 1))
    together = jax.tree.map(lambda *leaves: np.concatenate(leaves), *speakers)

    def rows(victim: Victim) -> PlainDict:
        def repeated(value):
            return np.full(len(key_data), value, np.float32)

        return {
            "key": key_data,
            "speaker": together.replace(dropout=repeated(victim.message_dropout)),
            "hyperparams": jax.tree.map(repeated, victim.hyperparams),
        }

    def measure(task: Task, key: jax.Array, hyperparams: Hyperparams) -> VictimResult:
        result = train(task, key, hyperparams, None)
        episodes, config = result.episodes, task.learner.config
        return VictimResult(
            fitness_of(settings.fitness, task, result),
            mean_return(episodes),
            last_quarter(episodes),
            Windows.at_most(CURVE_POINTS, config.num_updates).pooled(episodes),
            ~all_finite(task.learner.policy(result.state)),
        )

    victims, results = all_victims(settings), {}
    programs: dict[Any, devices.RowMap] = {}
    frames = {each.name: num_frames(each.train) for each in victims}
    total = sum(frames.values()) * len(key_data)
    with Progress(total=total, desc="comparing", unit="frame", unit_scale=True) as bar:
        for victim in victims:
            bar.stage(f"comparing: {victim.name}")

            def progress(agents: int, each: int = frames[victim.name]) -> None:
                bar.update(agents * each)
                check_stop()

            program = victim.learner, victim.train  # learning rates share a program
            if program not in programs:
                programs[program] = _compiled(settings, victim, measure)
            found = programs[program](rows(victim), progress)
            results[victim.name] = jax.tree.map(
                lambda leaf: leaf.reshape(len(names), seeds, *leaf.shape[1:]), found
            )
        victim, networks = victims[0], {}
        if network_diagnostics.supports(victim.train):
            bar.stage("comparing: inside the networks")
            traced = network_diagnostics.first_seeds(rows(victim), len(names), seeds)
            found = _compiled(settings, victim, network_diagnostics.trace)(
                traced, lambda agents: check_stop()
            )
            per_update = victim.train.frames_per_update
            networks = network_diagnostics.summarise(found, names, per_update, figures)
    first, config = results[victim.name], victim.train
    plots.plot_learning_curves(
        dict(zip(names, mean_returns(first.curve), strict=True)),
        Windows.at_most(CURVE_POINTS, config.num_updates).ends() * config.frames_per_update,
        figures / "victims.png",
    )
    sign, places = SIGNS[settings.role], dict(zip(names, range(len(names)), strict=True))
    cells = {
        name: [{each: mean(getattr(found, each)[place]) for each in WHEN}
               for found in results.values()]
        for name, place in places.items()
    }  # fmt: skip
    return GameResult(
        {name: sign * np.asarray(first.fitness[at], np.float64) for name, at in places.items()},
        list(learned),
        "There is nothing to tune of silence, constants, random networks and noise.",
        sum(frames.values()),
        {
            "role": settings.role,
            "networks": networks,
            **Meetings(list(results), cells).to_plain(KEYS),
        },
        diverged={name: int(np.sum(first.diverged[place])) for name, place in places.items()},
    )


def _speaker(name: str, key: jax.Array, weights: channels.Weights) -> channels.Speaker:
    return channels.speaker(name, jax.random.fold_in(key, 0x7A1C), weights)


def _compiled(
    settings: CheapTalkSettings,
    victim: Victim,
    measure: Callable[[Task, jax.Array, Hyperparams], Any],
) -> devices.RowMap:
    """Return a program that measures the training of victims with any channel.

    Args:
        settings: settings of the evolution.
        victim: the learner; its hyperparameters are part of the rows.
        measure: `(task, key, hyperparams) -> measurements`.
    """
    task = make_task(victim, settings.task, settings.channel, speaks=True)

    def run(row: PlainDict) -> Any:
        key = jax.random.wrap_key_data(row["key"])
        return measure(with_channel(task, row["speaker"]), key, row["hyperparams"])

    count = settings.evaluation.seeds * (1 + len(channels.HAND_WRITTEN))
    return row_map(run, settings, task, victim.hyperparams, count)


def row_map(
    run: Callable[[PlainDict], Any],
    settings: TalkSettings,
    task: Task,
    hyperparams: Hyperparams,
    count: int,
) -> devices.RowMap:
    """Return a function of one victim's row as a compiled program for `count` rows."""
    num_devices = settings.evolution.num_devices
    chunk_size = settings.evolution.chunk_size or devices.choose_chunk_size(
        count, working_set(task, hyperparams, None), num_devices
    )
    return devices.RowMap(run, chunk_size=chunk_size, num_devices=num_devices)


def tables(result: PlainMapping) -> list[Table]:
    """Return the returns of victims with every channel, over training and at its end."""
    found = Meetings.from_plain(result, KEYS)
    if found is None:
        return []
    returns = [
        found.table(
            f"Victims: mean return {text}",
            measure,
            corner="victim",
            note=NOTE if measure == "mean_return" else "",
            digits=0,
        )
        for measure, text in WHEN.items()
    ]
    return [*returns, *network_diagnostics.tables(result)]
