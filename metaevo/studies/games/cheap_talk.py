"""Adversarial cheap talk (Lu et al. 2023): messages behind observations, evolved to ruin learning.

A channel says a message about every observation, and nothing else: it touches neither dynamics nor
rewards nor actions, and says nothing that the observation does not hold. An adversary is rewarded
for what its victim does not earn while it learns, an ally for what it does.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.config import to_dict
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, key_for
from metaevo.reports import talk_plots
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.games import victims
from metaevo.studies.games.cheap_talk_settings import SIGNS, CheapTalkSettings
from metaevo.studies.study import Plain, subtitle
from metaevo.training.checks import check_agents
from metaevo.training.fitness import measures
from metaevo.training.train_learner import Task, fitness_of, train, working_set
from purerl.learners import num_frames
from purerl.parts import channels, masks
from purerl.parts.channels import Weights

PLAYS, STEPS = 64, 200
"""Environments in which random play shows what is observed, and its steps."""


class CheapTalk:
    """A `MetaProblem`: train a victim that hears a candidate."""

    differentiable = False
    """as actions are drawn"""

    def __init__(self, settings: CheapTalkSettings, task: Task):
        """Bind the parts.

        Args:
            settings: of the evolution.
            task: of the victim.
        """
        self.task, self.hyperparams = task, settings.hyperparams
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
        result = train(victims.talked_to(self.task, meta_params), key, self.hyperparams, None)
        metrics = {
            **measures(result.episodes),
            "last_quarter": victims.last_quarter(result.episodes),
        }
        victim = fitness_of(self.fitness, self.task, result)
        return Evaluation(self.sign * victim, {f"victim_{each}": metrics[each] for each in metrics})


class CheapTalkStudy(Plain):
    """Conforms to `metaevo.studies.study.Study`."""

    captions: Mapping[str, str] = {
        "victims.png": "What fresh victims earn while they learn, by the channel that talks to "
        "them: mean and 95% interval.",
        "messages.png": "What the channel says, over the two coordinates of the observation along "
        "which its messages change most; the others have their median in random play.",
        "networks.png": "What happens inside the networks of fresh victims while they learn: mean "
        "and 95% interval.",
    }

    def __init__(
        self,
        settings: CheapTalkSettings,
        run_path: Path | None = None,
        *,
        trust_source: bool = False,
    ):
        """Build the victims.

        Args:
            settings: of the evolution.
            run_path: of no use: nothing of other runs is needed.
            trust_source: of no use: no code is loaded.

        Raises:
            ConfigError: for a victim or an environment to which nobody can talk.
        """
        del run_path, trust_source
        self.settings = settings
        self.task = victims.task_of(victims.first_of(settings), settings.task, settings.channel)
        victims.victims_of(settings)  # or they would be refused after hours of evolution
        self.name = f"cheap_talk_{settings.role}"

    def check(self) -> None:
        """Find out whether strategy, victims and devices fit."""
        check_agents(self.problem({}), [self.task], self.settings)

    def problem(self, measured: Mapping[str, Any]) -> CheapTalk:
        """Return the problem: a victim's training."""
        del measured
        return CheapTalk(self.settings, self.task)

    def save(self, directory: RunDirectory, meta_params: Weights, generation: int) -> None:
        """Write the channel, so that any learner can hear it."""
        settings = self.settings
        about = {
            "channel": to_dict(settings.channel),
            "role": settings.role,
            "learner": settings.learner,
            "generation": generation,
        }
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: Weights, figures: Path) -> None:
        """Draw what the channel says."""
        config = self.settings.channel
        channel = channels.messages(config.messenger)

        @jax.jit
        def say(obs):
            return config.scale * channel(meta_params, obs)

        seen = self._observations()
        middle, low, high = (np.quantile(seen, each, axis=0) for each in (0.5, 0.02, 0.98))
        name = self.settings.task.env
        assert isinstance(name, str)
        talk_plots.plot_messages(
            lambda obs: np.asarray(say(obs)), middle, low, high, name, figures / "messages.png"
        )

    def compare(
        self,
        learned: Mapping[str, Weights],
        path: Path,
        *,
        evolution_frames: int,
        measured: Mapping[str, Any],
        check_stop: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Let evolved and hand-written channels talk to fresh victims."""
        del measured
        if not self.settings.evaluation.seeds:
            return None
        return victims.compare(
            self.settings,
            learned,
            path / "figures",
            evolution_frames=evolution_frames,
            check_stop=check_stop,
        )

    def title(self, generations: int) -> tuple[str, str]:
        """Return who talks to whom."""
        settings = self.settings
        who = "An adversary" if settings.role == "adversary" else "An ally"
        learner = settings.learner.upper().replace("_", "-")
        return (
            f"Cheap talk: {who.lower()} of {learner} on {settings.task.env}",
            subtitle(generations),
        )

    def findings(self, meta_params: Weights, result: Mapping[str, Any]) -> list[str]:
        """Return what the messages do to victims of evolution with other seeds."""
        del meta_params
        found = result.get("victims")
        if found is None:
            return []
        learned, silent = (found["channels"][name][0] for name in (result["learned"], "silence"))
        said = [
            f"{learned[measure][0]:.0f} {when} ({silent[measure][0]:.0f} in silence)"
            for measure, when in (("mean_return", "over training"),
                                  ("last_quarter", "in its last quarter"))
        ]  # fmt: skip
        return [f"Fresh victims that hear it have a mean return of {said[0]} and {said[1]}."]

    def tables(self, result: dict[str, Any]) -> list[Table]:
        """Return how well victims learn with every channel."""
        return victims.tables(result)

    def _observations(self) -> np.ndarray:
        """Return what is observed in random play [samples, obs_size]."""
        env, params = self.task.learner.env.env, self.task.env_params.env

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
