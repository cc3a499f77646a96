"""Cheap talk (Lu et al. 2023): an adversary or an ally of a learner is evolved.

A channel appends a message to every observation. The message is a function of the observation, so
it adds no information, and it changes neither dynamics nor rewards. An adversary minimises the
return of its victim during training, an ally maximises it.

    metaevo evolve --config configs/cheap_talk/cartpole.yaml

Victims are the tasks of the problem: those of the evolution, and unseen ones for the judgement.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Interval, MaxLen, MinLen
from pydantic import ConfigDict, TypeAdapter, ValidationError

import metaevo
from experiments.cheap_talk import channels, figures
from experiments.cheap_talk.channels import Messenger
from experiments.cheap_talk.talking import Talking, TalkParams
from purerl import dqn, envs, ppo, q_learning
from purerl.parts.evaluation import mean_return
from purerl.types import EpisodeSums

PLAYS, STEPS = 64, 200
"""Environments and steps of random play, from which the figure takes its observation range."""
LAST = 0.1
"""The last part of training that counts as its end."""
LEARNERS = {"ppo": ppo.LEARNER, "dqn": dqn.LEARNER, "q_learning": q_learning.LEARNER}
"""What victims may be."""
SIGNS = {"adversary": -1.0, "ally": 1.0}
"""Sign of the victim's fitness in the fitness of a channel, by its role."""


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


@dataclass(frozen=True)
class VictimConfig:
    """A learner that hears the channel."""

    learner: str = "ppo"
    """ppo, dqn, or another learner of purerl with vectors as observations"""
    train: dict[str, Any] = field(default_factory=dict)
    """its static settings"""
    hyperparams: dict[str, Any] = field(default_factory=dict)
    """its traced settings"""


class Victim(NamedTuple):
    """A task: a learner in an environment with messages."""

    learner: Any
    hyperparams: Any


@dataclass(frozen=True)
class CheapTalk(metaevo.MetaProblem):
    """Train a victim that hears a candidate.

    Raises:
        metaevo.ConfigError: if a victim cannot be built, or observations are not vectors.
    """

    role: Literal["adversary", "ally"] = "adversary"
    """adversary: the channel lowers the victim's fitness; ally: the channel raises it"""
    env: str = "CartPole-v1"
    """the environment's name"""
    env_params: dict[str, Any] = field(default_factory=dict)
    """overrides of its parameters"""
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    victims: Annotated[dict[str, VictimConfig], MinLen(1)] = field(
        default_factory=lambda: {"PPO": VictimConfig()}
    )
    """the victims of the evolution, by their names; settings of others than the first are changes
    of the first one's, if they have the same learner"""
    unseen_victims: dict[str, VictimConfig] = field(default_factory=dict)
    """victims that only the judgement trains, in the same way ({half the rate: {hyperparams:
    {learning_rate: 2.5e-3}}})"""
    final_return: Annotated[float, Ge(0)] = 1.0
    """weight of the mean return in the last tenth of training, next to that of all of it"""
    captions: ClassVar = {
        "messages.png": "Messages of the channel over the two coordinates of the observation along "
        "which they change most; the others have their median in random play.",
    }

    def __post_init__(self) -> None:
        self._hear(self.victims)

    def _hear(self, victims: dict[str, VictimConfig]) -> None:
        object.__setattr__(self, "met", victims)
        object.__setattr__(self, "tasks", list(victims))
        object.__setattr__(self, "built", self.build(self.channel.messenger.message))

    met: ClassVar[dict[str, VictimConfig]]
    """the victims, and below what trains them; set for each object"""
    built: ClassVar[list[Victim]]

    def build(self, channel: channels.Channel) -> list[Victim]:
        """Return the victims, in the environment with messages of a channel."""
        return [self._victim(name, each, channel) for name, each in self.met.items()]

    def _victim(self, name: str, given: VictimConfig, channel: channels.Channel) -> Victim:
        first = next(iter(self.victims.values()))
        train, hyperparams = given.train, given.hyperparams
        if given.learner == first.learner:
            train, hyperparams = {**first.train, **train}, {**first.hyperparams, **hyperparams}
        try:
            entry = LEARNERS[given.learner]
            env = Talking(self._bare[0], channel, self.channel.width)
            learner = entry.make(_settings(entry.config, train), env)
            return Victim(learner, _settings(entry.hyperparams, hyperparams))
        except KeyError:
            reason: Any = f"learner = {given.learner!r}: must be one of {', '.join(LEARNERS)}"
        except (TypeError, ValueError) as error:
            reason = error
        raise metaevo.ConfigError(f"victims: {name}: {reason}")

    @cached_property
    def _bare(self) -> Any:
        try:
            return envs.make(self.env, **self.env_params)
        except (TypeError, ValueError) as error:
            raise metaevo.ConfigError(f"env: {error}") from error

    @property
    def description(self) -> Any:
        """What scores depend on."""
        return [repr(self), self.tasks]

    def frames(self, task: Any) -> jax.Array:
        """Return the environment steps of one victim."""
        configs = [each.learner.config for each in self.built]
        return jnp.asarray([each.num_updates * each.frames_per_update for each in configs])[task]

    def init(self, key: jax.Array) -> Any:
        """Draw the weights of a channel."""
        env, params = self._bare
        (size,) = env.observation_space(params).shape
        return self.channel.messenger.init(key, jnp.zeros(size))

    def evaluate(self, key: jax.Array, meta_params: Any, task: Any) -> metaevo.Evaluation:
        """Train one victim from scratch."""
        return self.train(self.built, key, meta_params, task)

    def train(
        self, victims: list[Victim], key: jax.Array, spoken: Any, task: Any
    ) -> metaevo.Evaluation:
        """Train one victim that hears a channel with its parameters."""

        def victim(built: Victim, key: jax.Array, spoken: Any) -> metaevo.Evaluation:
            params = TalkParams(self._bare[1], spoken, self.channel.scale)
            settings = metaevo.devices.as_inputs((built.hyperparams, None, params))
            result = built.learner.train(key, *settings)
            whole, final = mean_return(result.episodes), final_return(result.episodes)
            finite = [jnp.all(jnp.isfinite(each)) for each in jax.tree.leaves(result.state.params)]
            fitness = jnp.where(jnp.stack(finite).all(), whole + self.final_return * final, jnp.nan)
            metrics = {"victim_mean_return": whole, "victim_final_return": final}
            return metaevo.Evaluation(SIGNS[self.role] * fitness, metrics)

        each = [functools.partial(victim, built) for built in victims]
        found: metaevo.Evaluation = jax.lax.switch(task, each, key, spoken)
        return found

    def contenders(self) -> list[metaevo.Contender]:
        """Return the hand-written channels, which share a program."""
        talk = HandWritten(self)
        return [
            metaevo.Contender(name, talk, np.float32(place))
            for place, name in enumerate(channels.HAND_WRITTEN)
        ]

    def unseen(self) -> "CheapTalk | None":
        """Return the problem with the victims that only the judgement trains."""
        if not self.unseen_victims:
            return None
        found = replace(self)
        found._hear(self.unseen_victims)
        return found

    def draw(self, meta_params: Any, folder: Path) -> None:
        """Draw the messages of the channel."""
        folder.mkdir(parents=True, exist_ok=True)
        seen = self._observations
        figures.plot_messages(
            lambda obs: self.channel.scale * np.asarray(self._message(meta_params, obs)),
            np.quantile(seen, 0.5, axis=0),
            np.quantile(seen, (0.02, 0.98), axis=0),
            self.env,
            folder / "messages.png",
        )

    @cached_property
    def _message(self) -> Callable[[Any, np.ndarray], jax.Array]:
        return jax.jit(self.channel.messenger.message)

    @cached_property
    def _observations(self) -> np.ndarray:
        """Observations [samples, obs_size] of random play."""
        env, params = self._bare

        def step(carry, key):
            obs, state = carry
            act_key, env_key = jax.random.split(key)
            action = env.action_space(params).sample(act_key)
            nxt, state, *_ = env.step(env_key, state, action, params)
            return (nxt, state), obs

        def play(key):
            reset_key, key = jax.random.split(key)
            start = env.reset(reset_key, params)
            return jax.lax.scan(step, start, jax.random.split(key, STEPS))[1]

        seen = np.asarray(jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), PLAYS)))
        return seen.reshape(-1, seen.shape[-1])


class HandWritten(metaevo.MetaProblem):
    """Train a victim that hears a hand-written channel: points are places in `HAND_WRITTEN`."""

    def __init__(self, talk: CheapTalk):
        """Bind the victims."""
        self.talk, self.tasks = talk, list(talk.tasks)
        self.victims = talk.build(channels.speak(talk.channel.messenger))

    @property
    def description(self) -> Any:
        """What scores depend on."""
        return ["hand-written", self.talk.description]

    def frames(self, task: Any) -> jax.Array:
        """Return the environment steps of one victim."""
        return self.talk.frames(task)

    def init(self, key: jax.Array) -> jax.Array:
        """Return the first channel."""
        return jnp.zeros(())

    def evaluate(self, key: jax.Array, meta_params: Any, task: Any) -> metaevo.Evaluation:
        """Train one victim; constants and random networks differ between victims."""
        example, place = self.talk.init(key), meta_params.astype(jnp.int32)
        own = jax.random.fold_in(key, 0x7A1C)
        spoken = [channels.speaker(name, own, example) for name in channels.HAND_WRITTEN]
        speaker = jax.tree.map(lambda *leaves: jnp.stack(leaves)[place], *spoken)
        return self.talk.train(self.victims, key, speaker, task)


def _settings(kind: type, given: dict[str, Any]) -> Any:
    """Return the static or traced settings of a learner; raises `ValueError` if one is invalid."""
    try:
        adapter = TypeAdapter(list[kind], config=ConfigDict(extra="forbid"))  # type: ignore[valid-type]
        return adapter.validate_python([given])[0]
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"][1:]))
        raise ValueError(f"{key} = {first['input']!r}: {first['msg']}") from None


def final_return(episodes: EpisodeSums) -> jax.Array:
    """Return the mean return of the episodes [U] that ended in the last tenth of a training.

    If there is none, of those that ended in the last update with any.
    """
    updates = jnp.arange(episodes.episodes.shape[0])
    start = len(updates) - max(1, round(LAST * len(updates)))
    last_end = jnp.max(jnp.where(episodes.episodes > 0, updates, 0))
    final = updates >= jnp.minimum(start, last_end)
    return mean_return(jax.tree.map(lambda sums: jnp.where(final, sums, 0.0), episodes))
