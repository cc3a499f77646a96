"""Adversarial cheap talk (Lu et al. 2023): messages behind observations, evolved to ruin learning.

A channel appends a message to every observation. It touches neither dynamics nor rewards nor
actions, and its message is a function of the observation, so it adds no information. An adversary
is evolved to minimise the return of its victim during training, an ally to maximise it.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.reports import game_plots
from metaevo.reports.page import Table
from metaevo.studies.games import victims
from metaevo.studies.games.results import GameResult, Meetings
from metaevo.studies.games.settings import SIGNS, CheapTalkSettings
from metaevo.studies.games.study import AgentStudy
from metaevo.studies.study import subtitle
from metaevo.training.fitness import measures
from metaevo.training.train_learner import fitness_of, train, working_set
from purerl.learners import num_frames
from purerl.parts import channels, masks
from purerl.parts.channels import Weights

PLAYS, STEPS = 64, 200
"""Environments and steps of random play, from which the figure takes its observation range."""


class CheapTalk:
    """A `MetaProblem`: train a victim that hears a candidate."""

    differentiable = False
    """as actions are drawn"""

    def __init__(self, settings: CheapTalkSettings):
        """Build the victim.

        Raises:
            ConfigError: if the observations of the victim or of the environment are not vectors.
        """
        victim = victims.trained_victim(settings)
        self.task = task = victims.make_task(victim, settings.task, settings.channel)
        self.hyperparams = settings.hyperparams
        self.fitness, self.sign = settings.fitness, SIGNS[settings.role]
        self.messenger = settings.channel.messenger
        self.frames = num_frames(settings.train)
        self.working_set_bytes = working_set(task, settings.hyperparams, None)
        (size,) = task.learner.env.env.observation_space(task.env_params.env).shape
        self.obs_size = int(size)

    def init(self, key: jax.Array) -> Weights:
        """Draw the weights of a channel."""
        return self.messenger.init(key, jnp.zeros(self.obs_size))

    def evaluate(self, key: jax.Array, meta_params: Weights) -> Evaluation:
        """Train one victim from scratch."""
        result = train(victims.with_channel(self.task, meta_params), key, self.hyperparams, None)
        metrics = {
            **measures(result.episodes),
            "last_quarter": victims.last_quarter(result.episodes),
        }
        victim = fitness_of(self.fitness, self.task, result)
        return Evaluation(self.sign * victim, {f"victim_{each}": metrics[each] for each in metrics})


class CheapTalkStudy(AgentStudy[CheapTalk]):
    """Conforms to `metaevo.studies.study.Study`."""

    make_problem = CheapTalk
    settings: CheapTalkSettings

    captions: Mapping[str, str] = {
        "victims.png": "Returns of fresh victims while they learn, by the channel that they hear: "
        "mean and 95% interval.",
        "messages.png": "Messages of the channel over the two coordinates of the observation along "
        "which they change most; the others have their median in random play.",
        "networks.png": "Diagnostics of the networks of fresh victims while they learn: mean and "
        "95% interval.",
    }

    def __init__(
        self,
        settings: CheapTalkSettings,
        run_path: Path | None = None,
        *,
        trust_source: bool = False,
    ):
        """Build all victims, so that unsuitable victims raise errors before the evolution."""
        super().__init__(settings, run_path, trust_source=trust_source)
        victims.all_victims(settings)
        self.name = f"cheap_talk_{settings.role}"

    def about(self) -> PlainDict:
        """Return the settings of the channel, read by every learner that hears it."""
        settings = self.settings
        return {
            "channel": to_dict(settings.channel),
            "role": settings.role,
            "learner": settings.learner,
        }

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw the messages of the channel."""
        config = self.settings.channel
        channel = channels.messages(config.messenger)

        @jax.jit
        def message(obs):
            return config.scale * channel(meta_params, obs)

        seen = self._observations
        middle, low, high = (np.quantile(seen, each, axis=0) for each in (0.5, 0.02, 0.98))
        name = self.settings.task.env
        assert isinstance(name, str)
        game_plots.plot_messages(
            lambda obs: np.asarray(message(obs)), middle, low, high, name, figures / "messages.png"
        )

    def draw_frame(self, meta_params: Weights, figures: Path) -> None:
        """Draw the same messages."""
        self.draw(meta_params, figures)

    def judge(
        self, learned: Mapping[str, Weights], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Evaluate evolved and hand-written channels on fresh victims."""
        return victims.judge(self.settings, learned, figures, check_stop)

    def title(self, generations: int) -> tuple[str, str]:
        """Return the role and the victim."""
        settings = self.settings
        role = "an adversary" if settings.role == "adversary" else "an ally"
        learner = settings.learner.upper().replace("_", "-")
        return f"Cheap talk: {role} of {learner} on {settings.task.env}", subtitle(generations)

    def findings(self, meta_params: Weights, result: PlainMapping) -> list[str]:
        """Return the effect of the messages on fresh victims."""
        del meta_params
        found = Meetings.from_plain(result, victims.KEYS)
        if found is None:
            return []
        learned, silent = (found.cells[name][0] for name in (result["learned"], "silence"))
        returns = [
            f"{learned[measure].value:.0f} {text} ({silent[measure].value:.0f} in silence)"
            for measure, text in victims.WHEN.items()
        ]
        return [f"Fresh victims that hear it have a mean return of {' and '.join(returns)}."]

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return the returns of victims with every channel."""
        return victims.tables(result)

    @cached_property
    def _observations(self) -> np.ndarray:
        """Return the observations [samples, obs_size] of random play."""
        task = self.agents.task
        env, params = task.learner.env.env, task.env_params.env

        def step(carry, key):
            obs, state = carry
            act_key, env_key = jax.random.split(key)
            action = masks.draw(env, act_key, state, params)
            nxt, state, *_ = env.step(env_key, state, action, params)
            return (nxt, state), obs

        def play(key):
            reset_key, key = jax.random.split(key)
            start = env.reset(reset_key, params)
            return jax.lax.scan(step, start, jax.random.split(key, STEPS))[1]

        keys = jax.random.split(key_for(self.settings.run.seed, Purpose.ILLUSTRATION), PLAYS)
        seen = np.asarray(jax.jit(jax.vmap(play))(keys))
        return seen.reshape(-1, seen.shape[-1])
