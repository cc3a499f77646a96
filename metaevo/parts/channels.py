"""Channels by name (`channel: noise`): messages that are appended to every observation.

A channel is hand-written, an entry of the zoo, or the result of a run of cheap talk. Any learner
with vectors as observations can hear it, because it is part of the environment's parameters.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt, Interval, MaxLen, MinLen

from metaevo.config import ConfigError, from_dict, show
from metaevo.parts import learners, saved
from purerl.envs.talking import Talking, TalkParams
from purerl.parts import channels
from purerl.parts.channels import Messenger, Weights
from purerl.parts.own_task import sampler
from purerl.types import Channel, Environment, EnvParams

NONE = "none"
SETTING = "channel"
NAMES = (NONE, *channels.HAND_WRITTEN)
DESCRIPTION = (
    f"{', '.join(NAMES)}, the directory of a run of cheap talk, or zoo:NAME (metaevo zoo lists "
    "them)"
)


@dataclass(frozen=True)
class ChannelConfig:
    """The network of messages: relu layers, then `scale * tanh`."""

    width: Annotated[int, Interval(gt=0, le=1024)] = 2
    """numbers of a message"""
    scale: Annotated[float, Gt(0)] = 2 * math.pi
    """bound of the numbers of a message"""
    hidden_sizes: Annotated[
        tuple[Annotated[int, Interval(gt=0, le=4096)], ...], MinLen(1), MaxLen(16)
    ] = (64, 64)
    """units of each hidden layer"""

    @property
    def messenger(self) -> Messenger:
        """The network."""
        return Messenger(self.hidden_sizes, self.width)


def talking(
    environment: tuple[str, Environment, EnvParams],
    channel: Channel,
    config: ChannelConfig,
    learner: str,
) -> tuple[Talking, int]:
    """Return an environment in which a channel talks, and the size of the observations without it.

    Raises:
        ConfigError: if the observations of the learner or of the environment are not vectors.
    """
    name, env, env_params = environment
    if learners.find(learner).observations == "index":
        raise ConfigError(
            f"learner = {learner!r} sees numbers of states, to which no message can be appended; "
            "take another learner, such as ppo or dqn"
        )
    if sampler(env) is not None:
        raise ConfigError(f"task.env: {name} is a distribution of tasks; take one environment")
    try:
        found = Talking(env, channel, config.width)
    except ValueError as error:
        raise ConfigError(f"task.env: {error}") from error
    (size,) = env.observation_space(env_params).shape
    return found, int(size)


def hear(
    name: str,
    environment: tuple[str, Environment, EnvParams],
    learner: str,
    run_path: Path | None = None,
) -> tuple[str, Environment, EnvParams]:
    """Return an environment (name, environment, parameters) in which a channel talks.

    Constants, random networks and noise are the same ones for every agent of every run.

    Args:
        name: see `DESCRIPTION`.
        environment: that suits the learner, which receives the messages.
        learner: by its name.
        run_path: an existing run with a copy of the channel.

    Raises:
        ConfigError: if there is no such channel, or it cannot talk there.
    """
    if name == NONE:
        return environment
    try:
        return _heard(name, environment, learner, run_path)
    except ConfigError as error:
        raise ConfigError(f"{SETTING} = {show(name)}: {error}") from None


def _heard(
    name: str, environment: tuple[str, Environment, EnvParams], learner: str, run_path: Path | None
) -> tuple[str, Environment, EnvParams]:
    env_name, _, env_params = environment
    if name in channels.HAND_WRITTEN:
        config = ChannelConfig() if name == "random" else ChannelConfig(hidden_sizes=(1,))
        channel = channels.speak(config.messenger)
        talks, size = talking(environment, channel, config, learner)
        weights = config.messenger.init(jax.random.key(0), jnp.zeros(size))
        spoken: Any = channels.speaker(name, jax.random.key(0), weights)
    else:
        config, spoken = load(name, run_path)
        talks, size = talking(environment, config.messenger.message, config, learner)
        if (heard := _observed(config, spoken)) != size:
            raise ConfigError(
                f"it is for observations of {heard} numbers; {env_name} has {size} numbers"
            )
    return env_name, talks, TalkParams(env_params, spoken, config.scale)


def load(name: str, run_path: Path | None = None) -> tuple[ChannelConfig, Weights]:
    """Return a channel of the zoo or of a run of cheap talk, or the copy in an existing run.

    Raises:
        ConfigError: if there is no such channel, or it is damaged.
    """
    copy = None if run_path is None else run_path / SETTING
    weights, about = saved.load_other(
        name, copy, noun="channel", allowed=DESCRIPTION, recognises=recognises
    )
    config = from_dict(ChannelConfig, about[SETTING])
    _observed(config, weights)
    return config, jax.tree.map(jnp.asarray, weights)


def function(name: str) -> tuple[Callable[[Weights, jax.Array], jax.Array], Weights]:
    """Return a channel for `purerl.envs.talking.Talking`: its function, and its weights."""
    config, weights = load(name)

    def message(meta_params: Weights, obs: jax.Array) -> jax.Array:
        return config.scale * config.messenger.message(meta_params, obs)

    return message, weights


def recognises(about: Any) -> bool:
    """Return whether saved meta-parameters are a channel, from their metadata."""
    return isinstance(about, dict) and isinstance(about.get(SETTING), dict)


def keep(run_path: Path, name: str) -> None:
    """Copy a learned channel into the run that hears it."""
    if name not in NAMES:
        saved.keep(name, run_path / SETTING)


def _observed(config: ChannelConfig, weights: Weights) -> int:
    """Return the size of the observations that weights are for.

    Raises:
        ConfigError: if they do not fit the network.
    """
    found = jax.tree.map(np.shape, weights)
    for size in sorted({np.shape(leaf)[0] for leaf in jax.tree.leaves(weights) if np.ndim(leaf)}):
        fits = jax.eval_shape(config.messenger.init, jax.random.key(0), jnp.zeros(size))
        if jax.tree.map(lambda leaf: leaf.shape, fits) == found:
            return int(size)
    raise ConfigError("its weights do not fit its settings: they are damaged")
