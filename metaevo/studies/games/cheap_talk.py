"""Cheap talk (Lu et al. 2023): an adversary or an ally of a learner is evolved.

A channel appends a message to every observation. The message is a function of the observation, so
it adds no information, and it changes neither dynamics nor rewards. An adversary minimises the
return of its victim during training, an ally maximises it. The comparison trains fresh victims with
every channel: the victim of the evolution, and unseen ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import to_dict
from metaevo.config.plain import PlainDict
from metaevo.config.sections import specialised
from metaevo.evolution.problem import TASK, Evaluation, MetaProblem
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.judging.scores import Scores
from metaevo.parts.part import LEARNED
from metaevo.reports import game_plots, plots
from metaevo.studies.games import victims
from metaevo.studies.games.comparison import (
    Format,
    FreshAgents,
    GameResult,
    GameStudy,
    mean,
)
from metaevo.studies.games.settings import CheapTalkSettings
from metaevo.studies.games.victims import Victim
from metaevo.studies.study import CAPTION, TRAINING, subtitle
from metaevo.tasks import sampling
from metaevo.tasks.binding import learner_sections
from metaevo.tasks.bound import Bound, fitness_of, train, working_set
from metaevo.tasks.distributions import with_drawn
from metaevo.tasks.fitness import Windows, all_finite, mean_returns, measures
from metaevo.tasks.memory import check_agents
from purerl.learners import num_frames
from purerl.parts import channels
from purerl.parts.channels import Weights
from purerl.parts.evaluation import mean_return
from purerl.types import EpisodeSums, Hyperparams, PyTree

PLAYS, STEPS = 64, 200
"""Environments and steps of random play, from which the figure takes its observation range."""
CURVE_POINTS = 64
WHEN = {"mean_return": "over training", "last_quarter": "in its last quarter"}
"""Measures of a victim, in words."""
SIGNS = {"adversary": -1.0, "ally": 1.0}
"""Sign of the victim's fitness in the fitness of a channel, by its role."""
VICTIMS = Format(
    {measure: f"Victims: mean return {when}" for measure, when in WHEN.items()},
    "Of finished episodes, means over fresh seeds with 95% intervals; the victim of evolution "
    "comes first. Fitness in the comparison is that of the channel: for an adversary it is minus "
    "that of the victim.",
    corner="victim",
    digits=0,
)


class CheapTalk(MetaProblem):
    """A `MetaProblem`: train a victim that hears a candidate."""

    def __init__(self, settings: CheapTalkSettings):
        """Build the victim.

        Raises:
            ConfigError: if the observations of the victim or of the environment are not vectors.
        """
        self.task = victims.make_task(settings, victims.trained_victim(settings))
        self.hyperparams, self.messenger = settings.hyperparams, settings.channel.messenger
        params = self.task.env_params.env
        (self.obs_size,) = self.task.learner.env.env.observation_space(params).shape
        self.fitness, self.sign = settings.fitness, SIGNS[settings.role]
        self.sample = victims.read_sample(settings)

    @property
    def working_set_bytes(self) -> int:
        """Bytes that training one victim walks over."""
        return working_set(self.task, self.hyperparams, None)

    def frames(self, task: PyTree) -> int:
        """Return the environment steps of one victim."""
        return num_frames(self.task.learner.config)

    def init(self, key: jax.Array) -> Weights:
        """Draw the weights of a channel."""
        weights: Weights = self.messenger.init(key, jnp.zeros(self.obs_size))
        return weights

    def evaluate(self, key: jax.Array, meta_params: Weights, task: PyTree) -> Evaluation:
        """Train one victim from scratch, with parameters drawn from `sample`."""
        own, hyperparams = victims.with_channel(self.task, meta_params), self.hyperparams
        if self.sample:
            values = sampling.draw_all(self.sample, jax.random.fold_in(key, TASK))
            changes = sampling.of_prefix(values, sampling.HYPERPARAMS)
            hyperparams = hyperparams.replace(**changes)
            params = own.env_params.replace(env=with_drawn(own.env_params.env, values))
            own = own._replace(env_params=params)
        result = train(own, key, hyperparams, None)
        victim = fitness_of(self.fitness, self.task, result)
        metrics = {f"victim_{name}": value for name, value in measures(result.episodes).items()}
        metrics["victim_last_quarter"] = victims.last_quarter(result.episodes)
        return Evaluation(self.sign * victim, metrics)


class VictimResult(NamedTuple):
    """Results of training victims with a channel; each field [seeds]."""

    fitness: Any
    """fitness of the victim; NaN if it diverged or no episode ended"""
    mean_return: Any
    """mean return of the episodes of its training"""
    last_quarter: Any
    """mean return of the episodes that ended in the last quarter of its training"""
    curve: EpisodeSums
    """fields [..., points]"""
    diverged: Any


class CheapTalkStudy(GameStudy):
    """Cheap talk in training, as a study."""

    Settings, free = CheapTalkSettings, (*TRAINING, "channel.scale", "fitness.")
    format = VICTIMS
    metrics = "victim_mean_return", "victim_last_quarter"
    captions: Mapping[str, str] = {
        "victims.png": "Returns of fresh victims while they learn, by the channel that they hear: "
        "mean and 95% interval.",
        "messages.png": "Messages of the channel over the two coordinates of the observation along "
        "which they change most; the others have their median in random play.",
        **CAPTION,
    }

    def __init__(self, settings: CheapTalkSettings):
        """Build all victims, so that unsuitable victims raise errors before the evolution."""
        super().__init__(settings)
        self.name = f"cheap_talk_{settings.role}"
        self.victims = victims.all_victims(settings)

    @classmethod
    def settings_class(cls, raw: PlainDict, component: str | None = None) -> type[Any]:
        """Return the class of the settings, with `train` and `hyperparams` of the victim."""
        learner = raw.get("learner", "ppo")
        order = tuple(each.name for each in fields(cls.Settings))
        return specialised(
            cls.Settings, learner_sections(learner), {"learner": learner}, order=order
        )

    @property
    def agents(self) -> Any:
        """The problem."""
        return self._problem

    def check(self) -> None:
        """Raise `ConfigError` if strategy, agents or devices are unsuitable."""
        check_agents(self.agents, [self.agents.task], self.settings)

    def make_problem(self, settings: CheapTalkSettings) -> CheapTalk:
        """Return the problem."""
        return CheapTalk(settings)

    def about(self) -> PlainDict:
        """Return the settings of the channel, read by every learner that hears it."""
        settings = self.settings
        return {
            "channel": to_dict(settings.channel),
            "role": settings.role,
            "learner": settings.learner,
        }

    def draw_frame(self, meta_params: Weights, figures: Path) -> None:
        """Draw the messages of the channel."""
        config = self.settings.channel
        channel = jax.jit(config.messenger.message)
        seen = self._observations
        middle, low, high = (np.quantile(seen, each, axis=0) for each in (0.5, 0.02, 0.98))
        game_plots.plot_messages(
            lambda obs: config.scale * np.asarray(channel(meta_params, obs)),
            middle,
            low,
            high,
            self.settings.task.env,
            figures / "messages.png",
        )

    def judge(
        self, learned: Mapping[str, Weights], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Evaluate evolved and hand-written channels on fresh victims."""
        settings = self.settings
        weights = {**learned, **dict.fromkeys(channels.HAND_WRITTEN, next(iter(learned.values())))}
        programs: dict[tuple[Any, ...], FreshAgents[VictimResult]] = {}

        def results_of(victim: Victim) -> dict[str, VictimResult]:
            """Return the results [victims] by channel."""
            program = victim.learner, victim.train
            if program not in programs:  # learning rates share a program
                task = victims.make_task(settings, victim, speaks=True)
                programs[program] = FreshAgents(
                    settings,
                    weights,
                    lambda key, row: self._measure(
                        victims.with_channel(task, row["speaker"]), key, row["hyperparams"]
                    ),
                    frames=num_frames(victim.train),
                    bytes_per_agent=working_set(task, victim.hyperparams, None),
                )

            def make_row(key: jax.Array, name: str) -> PlainDict:
                own_key = jax.random.fold_in(key, 0x7A1C)
                speaker = channels.speaker(name, own_key, weights[name])
                hyperparams = jax.tree.map(jnp.float32, victim.hyperparams)
                return {"speaker": speaker, "hyperparams": hyperparams}

            return programs[program](make_row, f"comparing: {victim.name}", check_stop)

        results = {victim.name: results_of(victim) for victim in self.victims}
        config, trained = settings.train, results[self.victims[0].name]
        plots.plot_learning_curves(
            {name: mean_returns(each.curve) for name, each in trained.items()},
            Windows.at_most(CURVE_POINTS, config.num_updates).ends() * config.frames_per_update,
            figures / "victims.png",
        )
        sign = SIGNS[settings.role]
        cells = {
            name: [
                {measure: mean(getattr(found[name], measure)) for measure in WHEN}
                for found in results.values()
            ]
            for name in weights
        }
        frames = sum(num_frames(each.train) for each in self.victims)
        scores = Scores.of(
            {name: sign * np.asarray(each.fitness, np.float64) for name, each in trained.items()},
            dict.fromkeys(learned, LEARNED),
            [self.victims[0].name],
            frames=frames * len(weights) * settings.evaluation.seeds,
        )
        return GameResult(scores, list(results), cells)

    def _measure(self, task: Bound, key: jax.Array, hyperparams: Hyperparams) -> VictimResult:
        result = train(task, key, hyperparams, None)
        episodes, config = result.episodes, task.learner.config
        return VictimResult(
            fitness_of(self.settings.fitness, task, result),
            mean_return(episodes),
            victims.last_quarter(episodes),
            Windows.at_most(CURVE_POINTS, config.num_updates).pooled(episodes),
            ~all_finite(task.learner.policy(result.state)),
        )

    def title(self, generations: int) -> tuple[str, str]:
        """Return the role and the victim."""
        role = "an adversary" if self.settings.role == "adversary" else "an ally"
        return f"Cheap talk: {role} of {victims.title_of(self.settings)}", subtitle(generations)

    def findings(self, meta_params: Weights) -> list[str]:
        """Return the effect of the messages on fresh victims."""
        del meta_params
        if self.judged is None:
            return []
        cells = self.judged.cells
        learned, silent = next(iter(cells.values()))[0], cells["silence"][0]
        returns = [
            f"{learned[measure][0]:.0f} {text} ({silent[measure][0]:.0f} in silence)"
            for measure, text in WHEN.items()
        ]
        return [f"Fresh victims that hear it have a mean return of {' and '.join(returns)}."]

    @cached_property
    def _observations(self) -> np.ndarray:
        """Return the observations [samples, obs_size] of random play."""
        task = self.agents.task
        env, params = task.learner.env.env, task.env_params.env

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

        keys = jax.random.split(key_for(self.settings.run.seed, Purpose.ILLUSTRATION), PLAYS)
        seen = np.asarray(jax.jit(jax.vmap(play))(keys))
        return seen.reshape(-1, seen.shape[-1])
