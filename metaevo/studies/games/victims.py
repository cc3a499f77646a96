"""Learners that see a channel's messages: how they are built, and the comparison of channels.

Every channel talks to the same fresh agents: to those of evolution with other seeds, and to other
victims (another learning rate, another network, another learner).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from metaevo import statistics
from metaevo.comparison import comparison
from metaevo.components.channels import ChannelConfig, talking
from metaevo.components.component import LEARNED
from metaevo.config import ConfigError, from_dict, merge, show, to_dict
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import plots
from metaevo.reports.page import Table
from metaevo.runs.progress import Progress
from metaevo.studies.games import inner_life
from metaevo.studies.games.cheap_talk_settings import SIGNS, CheapTalkSettings, VictimConfig
from metaevo.training.checks import check_training
from metaevo.training.fitness import Windows, all_finite, mean_returns
from metaevo.training.task import (
    LearnerConfig,
    TaskConfig,
    learner_entry,
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


class Victim(NamedTuple):
    """A learner with its settings."""

    name: str
    learner: str
    train: LearnerConfig
    hyperparams: Hyperparams
    message_dropout: float = 0.0


class Hurt(NamedTuple):
    """How well victims have learned; each field [channels * seeds]."""

    fitness: Any
    """of the victim; NaN where it diverged or has nothing to be judged by"""
    mean_return: Any
    """of the episodes of its training"""
    last_quarter: Any
    """of the episodes that ended in the last quarter of it"""
    curve: EpisodeSums
    """fields [..., points]"""
    diverged: Any


def task_of(
    victim: Victim, task: TaskConfig, config: ChannelConfig, *, speaks: bool = False
) -> Task:
    """Bind a victim to its environment and a channel, which says nothing yet.

    Args:
        victim: who sees the messages.
        task: where it learns.
        config: of the channel.
        speaks: whether the channel's parameters are a `channels.Speaker`; by default weights.

    Raises:
        ConfigError: for a victim or an environment whose observations are no vectors.
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


def talked_to(task: Task, channel: Any) -> Task:
    """Return a victim's task with the parameters of a channel."""
    return task._replace(env_params=task.env_params.replace(channel=channel))


def last_quarter(episodes: EpisodeSums) -> jax.Array:
    """Return the mean return of the episodes that ended in the last quarter of a training.

    Args:
        episodes: each field [U]; NaN where none ended.
    """
    count = max(1, len(episodes.episodes) // 4)
    return mean_return(jax.tree.map(lambda sums: sums[-count:], episodes))


def first_of(settings: CheapTalkSettings) -> Victim:
    """Return the victim of evolution."""
    return Victim(settings.learner, settings.learner, settings.train, settings.hyperparams)


def victims_of(settings: CheapTalkSettings) -> list[Victim]:
    """Return the victim of evolution, and then those that it has not met.

    Raises:
        ConfigError: naming a victim that cannot be built.
    """
    found = [first_of(settings)]
    for name, change in settings.evaluation.victims.items():
        try:
            if name in (settings.learner, ""):
                raise ConfigError("it needs a name of its own")
            found.append(_other(name, change, settings))
        except ConfigError as error:
            raise ConfigError(f"evaluation.victims.{name}: {error}") from None
    return found


def _other(name: str, change: VictimConfig, settings: CheapTalkSettings) -> Victim:
    learner = change.learner or settings.learner
    module, built = learner_entry(learner).module, {}
    for section, kind in (("train", module.Config), ("hyperparams", module.Hyperparams)):
        same = getattr(settings, section) if learner == settings.learner else kind()
        built[section] = from_dict(kind, merge(to_dict(same), getattr(change, section)))
    victim = Victim(name, learner, **built, message_dropout=change.message_dropout)
    task = task_of(victim, settings.task, settings.channel, speaks=True)
    check_training("evaluation.seeds", task, victim.hyperparams, None, kept=1, at_once=1)
    return victim


def compare(
    settings: CheapTalkSettings,
    learned: Mapping[str, channels.Weights],
    figures: Path,
    *,
    evolution_frames: int,
    check_stop: Callable[[], None],
) -> dict[str, Any]:
    """Let channels that were found and hand-written ones talk to fresh victims.

    Args:
        settings: of the evolution.
        learned: the weights of what evolutions have found, by the names of the channels.
        figures: where to draw learning curves.
        evolution_frames: environment steps of evolution.
        check_stop: raises if the run is to stop; called between chunks of agents.

    Returns:
        the content of evaluation.json.
    """
    shapes = next(iter(learned.values()))
    weights = {**learned, **dict.fromkeys(channels.HAND_WRITTEN, shapes)}
    names, seeds = list(weights), settings.evaluation.seeds
    keys = keys_for(settings.run.seed, Purpose.HELD_OUT, seeds)
    speakers = [
        jax.device_get(jax.vmap(lambda key, name=name: _speaker(name, key, weights[name]))(keys))
        for name in names
    ]
    rows: dict[str, Any] = {
        "key": np.tile(np.asarray(jax.random.key_data(keys)), (len(names), 1)),
        "speaker": jax.tree.map(lambda *leaves: np.concatenate(leaves), *speakers),
    }
    victims, programs, hurt = victims_of(settings), {}, {}
    frames = {each.name: num_frames(each.train) for each in victims}
    total = sum(frames.values()) * len(names) * seeds
    with Progress(total=total, desc="comparing", unit="frame", unit_scale=True) as bar:
        for victim in victims:
            bar.stage(f"comparing: {victim.name}")

            def progress(agents: int, each: int = frames[victim.name]) -> None:
                bar.update(agents * each)
                check_stop()

            program = victim.learner, victim.train  # another learning rate compiles nothing
            if program not in programs:
                programs[program] = _program(settings, victim)
            own = jax.tree.map(
                lambda leaf: np.full(len(rows["key"]), leaf, np.float32), victim.hyperparams
            )
            dropout = np.full(len(rows["key"]), victim.message_dropout, np.float32)
            hears = rows["speaker"].replace(dropout=dropout)
            mine = {**rows, "speaker": hears, "hyperparams": own}
            found = programs[program](mine, progress)
            hurt[victim.name] = jax.tree.map(
                lambda leaf: leaf.reshape(len(names), seeds, *leaf.shape[1:]), found
            )
        networks = {}
        if trained := _tracer(settings, victims[0]):
            bar.stage("comparing: inside the networks")
            own = jax.tree.map(
                lambda leaf: np.full(len(rows["key"]), leaf, np.float32), victims[0].hyperparams
            )
            networks = inner_life.compare(
                trained,
                {**rows, "hyperparams": own},
                names,
                seeds,
                figures,
                frames=victims[0].train.frames_per_update,
                progress=lambda agents: check_stop(),
            )
    first = hurt[victims[0].name]
    plots.plot_learning_curves(
        dict(zip(names, mean_returns(first.curve), strict=True)),
        Windows.at_most(CURVE_POINTS, victims[0].train.num_updates).ends()
        * victims[0].train.frames_per_update,
        figures / "victims.png",
    )
    scores = {
        name: SIGNS[settings.role] * np.asarray(first.fitness[place], np.float64)[:, None]
        for place, name in enumerate(names)
    }
    return {
        **comparison.summary(
            [comparison.Variant(name, name, {}, 0) for name in names],
            statistics.fill_missing(scores),
            {name: int(np.sum(first.diverged[place])) for place, name in enumerate(names)},
            list(learned),
        ),
        **comparison.UNTUNED,
        "budget": "There is nothing to tune of silence, constants, random networks and noise.",
        "frames_per_agent": sum(frames.values()),
        "evolution_frames": evolution_frames,
        "role": settings.role,
        "networks": networks,
        "victims": {
            "names": list(hurt),
            "channels": {
                name: [
                    {
                        "mean_return": _estimate(each.mean_return[place]),
                        "last_quarter": _estimate(each.last_quarter[place]),
                    }
                    for each in hurt.values()
                ]
                for place, name in enumerate(names)
            },
        },
    }


def _speaker(name: str, key: jax.Array, weights: channels.Weights) -> channels.Speaker:
    return channels.speaker(name, jax.random.fold_in(key, 0x7A1C), weights)


def _program(settings: CheapTalkSettings, victim: Victim) -> devices.RowMap:
    """Return a compiled program that trains victims of that learner with any channel."""
    task = task_of(victim, settings.task, settings.channel, speaks=True)
    windows = Windows.at_most(CURVE_POINTS, victim.train.num_updates)

    def run(row: dict[str, Any]) -> Hurt:
        key = jax.random.wrap_key_data(row["key"])
        result = train(talked_to(task, row["speaker"]), key, row["hyperparams"], None)
        episodes = result.episodes
        return Hurt(
            fitness_of(settings.fitness, task, result),
            mean_return(episodes),
            last_quarter(episodes),
            windows.pooled(episodes),
            ~all_finite(task.learner.policy(result.state)),
        )

    return _mapped(run, settings, task, victim)


def _tracer(settings: CheapTalkSettings, victim: Victim) -> devices.RowMap | None:
    """Return a compiled program that looks into victims, or nothing if it cannot."""
    task = task_of(victim, settings.task, settings.channel, speaks=True)
    if not inner_life.can_trace(task):
        return None

    def run(row: dict[str, Any]) -> inner_life.Trace:
        key = jax.random.wrap_key_data(row["key"])
        return inner_life.trace(talked_to(task, row["speaker"]), key, row["hyperparams"])

    return _mapped(run, settings, task, victim)


def _mapped(
    run: Callable[[dict[str, Any]], Any], settings: CheapTalkSettings, task: Task, victim: Victim
) -> devices.RowMap:
    """Return a function of one victim's row as a compiled program for all rows."""
    rows = settings.evaluation.seeds * (1 + len(channels.HAND_WRITTEN))
    num_devices = settings.evolution.num_devices
    chunk_size = settings.evolution.chunk_size or devices.choose_chunk_size(
        rows, working_set(task, victim.hyperparams, None), num_devices
    )
    return devices.RowMap(run, chunk_size=chunk_size, num_devices=num_devices)


def _estimate(values: np.ndarray) -> list[float]:
    """The mean over seeds and its interval, low and high; NaN where no episode ended at all."""
    return [float(each[0]) for each in statistics.mean_curve(values[:, None])]


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Return how well victims learn with every channel, over training and at its end."""
    victims = result.get("victims")
    if victims is None:
        return []
    found = []
    when = {"mean_return": "over training", "last_quarter": "in its last quarter"}
    for measure, text in when.items():
        columns = ["victim", *victims["channels"]]
        rows = [
            [name, *(_cell(*cells[place][measure]) for cells in victims["channels"].values())]
            for place, name in enumerate(victims["names"])
        ]
        note = NOTE if measure == "mean_return" else ""
        found.append(Table(f"Victims: mean return {text}", columns, rows, note=note))
    return [*found, *inner_life.tables(result)]


NOTE = (
    "Of finished episodes, means over fresh seeds with 95% intervals; the victim of evolution "
    "comes first. Fitness in the comparison is that of the channel: for an adversary it is minus "
    "that of the victim."
)


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"
