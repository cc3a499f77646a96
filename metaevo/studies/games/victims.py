"""Victims: learners that hear a channel, in evolution and in comparisons of channels."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, from_dict, merge, to_dict
from metaevo.config.plain import PlainDict
from metaevo.parts import learners
from metaevo.parts.channels import talking
from metaevo.parts.part import LEARNED
from metaevo.studies.games.settings import CheapTalkSettings, VictimConfig
from metaevo.tasks import sampling
from metaevo.tasks.binding import (
    LearnerConfig,
    LearnerSettings,
    make_environment,
    make_learner,
)
from metaevo.tasks.bound import Bound
from metaevo.tasks.distributions import check_env_params, check_hyperparams
from metaevo.tasks.memory import check_training
from metaevo.tuning.ranges import Entry
from purerl.envs.talking import TalkParams
from purerl.parts import channels
from purerl.parts.evaluation import mean_return
from purerl.types import EpisodeSums, Hyperparams


@dataclass(frozen=True)
class Victim(LearnerSettings):
    """A learner with its settings."""

    name: str
    learner: str
    train: LearnerConfig
    hyperparams: Hyperparams


def make_task(settings: CheapTalkSettings, victim: Victim, *, speaks: bool = False) -> Bound:
    """Bind a victim to its environment and a silent channel.

    The channel's parameters are weights, or a `channels.Speaker` if it `speaks`.

    Raises:
        ConfigError: if the observations of the victim or of the environment are not vectors.
    """
    name, bare, env_params = make_environment(settings.task, victim.learner)
    messenger = settings.channel.messenger
    channel = channels.speak(messenger) if speaks else messenger.message
    env, size = talking((name, bare, env_params), channel, settings.channel, victim.learner)

    def example(key):
        weights = messenger.init(key, np.zeros(size, np.float32))
        return channels.speaker(LEARNED, key, weights) if speaks else weights

    silent = jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(example, jax.random.key(0))
    )
    params = TalkParams(env_params, silent, settings.channel.scale)
    return Bound(name, make_learner(victim, env, params), params)


def read_sample(settings: CheapTalkSettings) -> dict[str, Entry]:
    """Return the distributions from which each victim draws its parameters.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    sample = sampling.read(settings.sample, "sample")
    for name in sampling.OWN:
        if name in sample:
            raise ConfigError(f"sample.{name}: cannot be drawn for a victim")
    _, env, params = make_environment(settings.task, settings.learner)
    check_env_params("sample", env, params, settings.task, sample, settings.learner)
    check_hyperparams("sample", settings, sample)
    return sample


def with_channel(task: Bound, channel: Any) -> Bound:
    """Return a victim's task with the parameters of a channel."""
    return task._replace(env_params=task.env_params.replace(channel=channel))


def last_quarter(episodes: EpisodeSums) -> jax.Array:
    """Return the mean return of the episodes [U] that ended in the last quarter of a training."""
    count = max(1, len(episodes.episodes) // 4)
    return mean_return(jax.tree.map(lambda sums: sums[-count:], episodes))


def title_of(settings: CheapTalkSettings) -> str:
    """Return the learner and the environment of the victim, for titles."""
    return f"{settings.learner.upper().replace('_', '-')} on {settings.task.env}"


def trained_victim(settings: CheapTalkSettings) -> Victim:
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
    victim = Victim(name, learner, **built)
    task = make_task(settings, victim, speaks=True)
    check_training("evaluation.seeds", task, victim.hyperparams, None, kept=1, at_once=1)
    return victim
