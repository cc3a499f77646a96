"""Cheap talk (Lu et al. 2023): an adversary or an ally of a learner is evolved.

A channel appends a message to every observation. The message is a function of the observation, so
it adds no information, and it changes neither dynamics nor rewards. An adversary minimises the
return of its victim during training, an ally maximises it.

    metaevo evolve --config configs/cheap_talk/cartpole.yaml

Victims are the tasks of the problem: those of the evolution, and unseen ones for the judgement.
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, MinLen
from matplotlib.figure import Figure

import metaevo
from experiments.cheap_talk.talking import (
    HAND_WRITTEN,
    Messenger,
    Talking,
    TalkParams,
    hand_written,
)
from purerl import dqn, envs, ppo, q_learning

PLAYS, STEPS = 64, 200
"""Environments and steps of random play, from which the figure takes its observation range."""
PANELS, POINTS = 4, 61
"""Panels of the figure at most, and points of a curve."""
LEARNERS = {"ppo": ppo.LEARNER, "dqn": dqn.LEARNER, "q_learning": q_learning.LEARNER}
"""What victims may be."""


@dataclass(frozen=True)
class VictimConfig:
    """A learner that hears the channel."""

    learner: str = "ppo"
    """ppo, dqn, or another learner of purerl with vectors as observations"""
    train: dict[str, Any] = field(default_factory=dict)
    """its static settings"""
    hyperparams: dict[str, Any] = field(default_factory=dict)
    """its traced settings"""


@dataclass(eq=False)
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
    channel: Messenger = field(default_factory=Messenger)
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
        "messages.png": "Messages of the channel along the coordinates of the observation that "
        "change them most; the others have their median in random play.",
    }

    def __post_init__(self) -> None:
        try:
            self.bare = envs.make(self.env, **self.env_params)
        except (TypeError, ValueError) as error:
            raise metaevo.ConfigError(f"env: {error}") from error
        self._train_on(self.victims, is_learned=True)

    def _train_on(self, victims: dict[str, VictimConfig], *, is_learned: bool) -> "CheapTalk":
        """Bind victims, which are tasks, of the learned or of hand-written channels.

        Hand-written channels have their places in `HAND_WRITTEN` as meta-parameters.
        """
        self.met, self.tasks, self.is_learned = victims, list(victims), is_learned
        self.built = [self._victim(name, each) for name, each in victims.items()]
        return self

    def _victim(self, name: str, given: VictimConfig) -> tuple[Any, Any]:
        """Return a learner in the environment with messages, and its hyperparameters."""
        first, messenger = next(iter(self.victims.values())), self.channel
        train, hyperparams = given.train, given.hyperparams
        if given.learner == first.learner:
            train, hyperparams = {**first.train, **train}, {**first.hyperparams, **hyperparams}
        channel = messenger.message if self.is_learned else messenger.speak
        try:
            if given.learner not in LEARNERS:
                allowed = ", ".join(LEARNERS)
                raise ValueError(f"learner = {given.learner!r}: must be one of {allowed}")
            entry, env = LEARNERS[given.learner], Talking(self.bare[0], channel, messenger.width)
            learner = entry.make(metaevo.read_settings(entry.config, train), env)
            return learner, metaevo.read_settings(entry.hyperparams, hyperparams)
        except (TypeError, ValueError) as error:
            raise metaevo.ConfigError(f"victims: {name}: {error}") from error

    def frames(self, task: Any) -> jax.Array:
        """Return the environment steps of one victim."""
        configs = [learner.config for learner, _ in self.built]
        return jnp.asarray([each.num_updates * each.frames_per_update for each in configs])[task]

    def init(self, key: jax.Array) -> Any:
        """Draw the weights of a channel."""
        return self._weights(key) if self.is_learned else jnp.zeros(())

    def _weights(self, key: jax.Array) -> Any:
        env, env_params = self.bare
        (size,) = env.observation_space(env_params).shape
        return self.channel.init(key, size)

    def evaluate(self, key: jax.Array, meta_params: Any, task: Any) -> metaevo.Evaluation:
        """Train one victim from scratch."""
        spoken = meta_params
        if not self.is_learned:  # constants and random networks differ between victims
            own, place = jax.random.fold_in(key, 0x7A1C), meta_params.astype(jnp.int32)
            spoken = hand_written(own, self._weights(key), place)
        each = [functools.partial(self._train, *victim) for victim in self.built]
        found: metaevo.Evaluation = jax.lax.switch(task, each, key, spoken)
        return found

    def _train(
        self, learner: Any, hyperparams: Any, key: jax.Array, spoken: Any
    ) -> metaevo.Evaluation:
        params = TalkParams(self.bare[1], spoken)
        result = learner.train(key, *metaevo.devices.as_inputs((hyperparams, None, params)))
        found = metaevo.measures(result.episodes)
        whole, final = found["mean_return"], found["final_return"]
        fitness = whole + self.final_return * final
        finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(result.state.params)]
        fitness = jnp.where(jnp.all(jnp.stack(finite)), fitness, jnp.nan)
        sign = -1.0 if self.role == "adversary" else 1.0
        metrics = {"victim_mean_return": whole, "victim_final_return": final}
        return metaevo.Evaluation(sign * fitness, metrics)

    def contenders(self) -> list[metaevo.Contender]:
        """Return the hand-written channels, which share a program."""
        training = copy.copy(self)._train_on(self.met, is_learned=False)
        return [
            metaevo.Contender(name, training, np.float32(place))
            for place, name in enumerate(HAND_WRITTEN)
        ]

    def unseen(self) -> "CheapTalk | None":
        """Return the trainings of the victims that only the judgement trains."""
        victims = self.unseen_victims
        return copy.copy(self)._train_on(victims, is_learned=True) if victims else None

    def draw(self, meta_params: Any) -> dict[str, Figure]:
        """Draw the messages of the channel."""
        lines = self._lines
        said = np.asarray(self._message(meta_params, lines))
        shown = np.sort(np.argsort(said.std(axis=1).sum(axis=-1))[-PANELS:])
        width = 3.2 * len(shown) + 1.0
        figure = Figure(figsize=(width, 3.4), dpi=110, layout="constrained")
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for place, axes in zip(shown, panels, strict=True):
            labels = [f"message {number + 1}" for number in range(said.shape[-1])]
            axes.plot(lines[place, :, place], said[place], label=labels)
            axes.set(xlabel=f"observation {place + 1}")
        panels[0].legend(fontsize="small")
        return {"messages.png": figure}

    @cached_property
    def _message(self) -> Callable[[Any, np.ndarray], jax.Array]:
        return jax.jit(self.channel.message)

    @cached_property
    def _lines(self) -> np.ndarray:
        """Observations [obs_size, points, obs_size] along each coordinate of random play."""
        env, params = self.bare

        def step(carry, key):
            obs, state = carry
            act_key, env_key = jax.random.split(key)
            action = env.action_space(params).sample(act_key)
            following, state, *_ = env.step(env_key, state, action, params)
            return (following, state), obs

        def play(key):
            reset_key, key = jax.random.split(key)
            start = env.reset(reset_key, params)
            return jax.lax.scan(step, start, jax.random.split(key, STEPS))[1]

        seen = np.concatenate(jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), PLAYS)))
        size, (low, high) = seen.shape[-1], np.quantile(seen, (0.02, 0.98), axis=0)
        lines = np.tile(np.median(seen, axis=0), (size, POINTS, 1))
        for place in range(size):
            lines[place, :, place] = np.linspace(low[place], high[place], POINTS)
        return lines
