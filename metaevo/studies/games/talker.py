"""Who trains victims with a channel, freezes them, and talks to them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from metaevo.config import ConfigError
from metaevo.studies.games import victims
from metaevo.studies.games.steering_settings import SteeringSettings
from metaevo.training.train_learner import train
from purerl import acting, ppo
from purerl.envs.steering import PLACES, Steering, SteeringParams, steer
from purerl.parts import channels
from purerl.parts.channels import Weights


class Talker:
    """Trains victims with a channel, and steers them."""

    def __init__(self, settings: SteeringSettings):
        """Bind the parts.

        Args:
            settings: of the evolution.

        Raises:
            ConfigError: for a victim that hears nothing or has a memory, an environment in which
                nobody can be steered, and goals out of reach.
        """
        self.settings, self.config = settings, settings.steering
        victim = victims.Victim(
            settings.learner, settings.learner, settings.train, settings.hyperparams
        )
        self.task = victims.task_of(victim, settings.task, settings.channel)
        if acting.has_memory(self.task.learner):
            raise ConfigError(
                "train.recurrent_size must be 0: a victim that is steered has no memory"
            )
        self.messenger = settings.channel.messenger
        params = self.task.env_params
        env: Any = self.task.learner.env
        if self.task.name not in PLACES:
            raise ConfigError(
                f"task.env = {self.task.name!r}: nobody knows where a victim is there; it must be "
                f"one of {', '.join(PLACES)}"
            )
        place = PLACES[self.task.name]
        reach = float(place.reach(params.env))
        for name in ("low", "high"):
            if abs(goal := getattr(self.config, name)) > reach:
                raise ConfigError(
                    f"steering.{name} = {goal:g}: {self.task.name}'s {place.what} is always "
                    f"between {-reach:g} and {reach:g}"
                )

        def act(policy, heard):
            key = jax.random.key(0)  # unused: the likeliest action is taken
            learner = self.task.learner
            return acting.act(learner, policy, None, key, heard, greedy=True, env_params=params)[0]

        self.env = Steering(
            env.env, act, place.of, width=settings.channel.width, steps=self.config.steps
        )
        # 2,048 steps an update, 64 gradient steps; a horizon of 20 steps, as far as a push lasts
        self.oracle = ppo.PPO(
            ppo.Config(
                total_timesteps=self.config.oracle_frames,
                num_envs=16,
                num_steps=128,
                update_epochs=8,
                num_minibatches=8,
                hidden_sizes=settings.channel.hidden_sizes,
            ),
            self.env,
        )
        self.oracle_hyperparams = ppo.Hyperparams(learning_rate=1e-3, gamma=0.95, entropy_coef=0.0)
        (size,) = env.env.observation_space(params.env).shape
        self.obs_size = int(size)

    def trained(self, key: jax.Array, channel: Weights) -> tuple[SteeringParams, Any]:
        """Train a victim from scratch; returns what steers it needs, and its training."""
        task = victims.talked_to(self.task, channel)
        result = train(task, key, self.settings.hyperparams, None)
        return SteeringParams(
            task.env_params.env,
            task.learner.policy(result.state),
            self.settings.channel.scale,
            self.config.low,
            self.config.high,
        ), result

    def saying(self, steering: Weights) -> Callable[[jax.Array], jax.Array]:
        """Return what a network of messages says."""
        return lambda seen: channels.messages(self.messenger)(steering, seen)

    def taught(self, key: jax.Array, params: SteeringParams) -> Callable[[jax.Array], jax.Array]:
        """Return what PPO has learned to say to a victim."""
        result = self.oracle.train(key, self.oracle_hyperparams, None, params)
        policy = self.oracle.policy(result.state)

        def say(seen):
            return acting.act(self.oracle, policy, None, key, seen, greedy=True, env_params=params)[
                0
            ]

        return say

    def score(
        self, speak: Callable[[jax.Array], jax.Array], key: jax.Array, params: SteeringParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return the mean reward of a step, and the share of steps before an episode's end."""
        goal_key, key = jax.random.split(key)
        count = self.config.episodes
        goals = jax.random.uniform(
            goal_key, (count,), minval=self.config.low, maxval=self.config.high
        )
        courses = jax.vmap(lambda key, goal: steer(self.env, speak, key, goal, params))(
            jax.random.split(key, count), goals
        )
        return jnp.mean(courses.reward), jnp.mean(courses.reward > 0)
