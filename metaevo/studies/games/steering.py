"""Cheap talk at test time (Lu et al. 2023): messages that bring a frozen victim to a goal.

The victim trains with one channel. Then it is frozen, takes its most likely action, and hears a
second network, which also sees a goal. Both networks are evolved together, or only the channel, and
PPO trains the second network for each victim (the oracle).
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from metaevo.components.component import LEARNED
from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import game_plots
from metaevo.reports.page import Table
from metaevo.studies.games import victims
from metaevo.studies.games.comparison import (
    FreshAgents,
    GameResult,
    estimates_table,
    mean,
)
from metaevo.studies.games.settings import SteeringSettings
from metaevo.studies.study import CAPTION, subtitle
from metaevo.training.fitness import all_finite
from purerl import acting, ppo
from purerl.envs.steering import PLACES, Course, Steering, SteeringParams, steer
from purerl.learners import num_frames
from purerl.parts import channels
from purerl.parts.channels import Weights
from purerl.types import TrainResult

CHANNELS = (LEARNED, "silence", "random")
"""Channels that the victims of the comparison hear in training."""
STEERERS = ("nobody", "a random network", LEARNED, "PPO")
"""Networks that steer the victims after training."""
SHOWN, VICTIMS = 5, 8
"""Numbers of goals and victims in the figure."""
NOTE = (
    "Means over fresh victims with 95% intervals of exp(-(place - goal)^2) a step, and 0 after an "
    "episode's end. Rows: the channel that victims heard while they trained. Columns: the network "
    "that talks to them when they are frozen; PPO is trained for each victim."
)

Found = dict[str, Weights]
"""Meta-parameters of the "channel", and of the "steering" unless PPO trains it."""
Speaker = Callable[[jax.Array], jax.Array]
"""From an observation and a goal to a message."""


class SteeringProblem(victims.TalkProblem):
    """A `MetaProblem`: train a victim with a candidate, freeze the victim, and steer it."""

    def __init__(self, settings: SteeringSettings):
        """Build the victim and the oracle.

        Raises:
            ConfigError: if the victim does not observe vectors or has a memory, the environment has
                no known place, or goals are out of reach.
        """
        super().__init__(settings)
        self.config, self.scale = settings.steering, settings.channel.scale
        params, learner, name = self.task.env_params, self.task.learner, self.task.name
        if acting.begin(learner) is not None:
            raise ConfigError(
                "train.recurrent_size must be 0: a victim that is steered has no memory"
            )
        if name not in PLACES:
            raise ConfigError(
                f"task.env = {name!r}: the place of a victim is unknown there; it must be one of "
                f"{', '.join(PLACES)}"
            )
        self.place = PLACES[name]
        reach = float(self.place.reach(params.env))
        for bound in ("low", "high"):
            goal = getattr(self.config, bound)
            if abs(goal) > reach:
                raise ConfigError(
                    f"steering.{bound} = {goal:g}: {name}'s {self.place.what} is always between "
                    f"{-reach:g} and {reach:g}"
                )

        def act(policy, heard):
            key = jax.random.key(0)  # unused: the action is the likeliest one
            return acting.act(learner, policy, None, key, heard, greedy=True, env_params=params)[0]

        self.env = Steering(
            learner.env.env,
            act,
            self.place.of,
            width=settings.channel.width,
            steps=self.config.steps,
        )
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
        self.by_ppo = self.config.by == "ppo"
        self.oracle_frames = num_frames(self.oracle.config)
        self.judged_frames = self.config.steps * self.config.episodes
        self.trained_frames = self.frames
        self.frames += self.judged_frames + (self.oracle_frames if self.by_ppo else 0)

    def init(self, key: jax.Array) -> Found:
        """Draw the weights of both networks."""
        own_key, key = jax.random.split(key)
        found = {"channel": self.init_messenger(key, self.obs_size)}
        if not self.by_ppo:
            found["steering"] = self.init_messenger(own_key, self.obs_size + 1)
        return found

    def evaluate(self, key: jax.Array, meta_params: Found) -> Evaluation:
        """Train a victim from scratch, and score how close it comes to its goals."""
        train_key, oracle_key, key = jax.random.split(key, 3)
        result = self.train_victim(train_key, meta_params["channel"])
        params = self.frozen(result)
        near, going = self.score(self.speaker(meta_params, oracle_key, params), key, params)
        return Evaluation(
            jnp.where(all_finite(params.victim), near, jnp.nan),
            {"victim_last_quarter": victims.last_quarter(result.episodes), "unended": going},
        )

    def frozen(self, result: TrainResult) -> SteeringParams:
        """Return the parameters for steering a trained victim."""
        policy, config = self.task.learner.policy(result.state), self.config
        return SteeringParams(self.task.env_params.env, policy, self.scale, config.low, config.high)

    def speaker(self, found: Found, key: jax.Array, params: SteeringParams) -> Speaker:
        """Return the evolved steering network, or a network that PPO trains for this victim."""
        if "steering" in found:
            return partial(self.messenger.message, found["steering"])
        result = self.oracle.train(key, self.oracle_hyperparams, None, params)
        policy = self.oracle.policy(result.state)
        act = partial(acting.act, self.oracle, policy, None, key, greedy=True, env_params=params)
        return lambda seen: act(seen)[0]

    def score(
        self, speak: Speaker, key: jax.Array, params: SteeringParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return the mean reward of a step, and the share of steps before an episode's end."""
        goal_key, key = jax.random.split(key)
        low, high, count = self.config.low, self.config.high, self.config.episodes
        goals = jax.random.uniform(goal_key, (count,), minval=low, maxval=high)
        courses = self.steer(speak, jax.random.split(key, count), goals, params)
        return jnp.mean(courses.reward), jnp.mean(courses.reward > 0)

    def steer(
        self, speak: Speaker, keys: jax.Array, goals: jax.Array, params: SteeringParams
    ) -> Course:
        """Play an episode for each key and goal; fields [goals, steps]."""
        return jax.vmap(lambda key, goal: steer(self.env, speak, key, goal, params))(keys, goals)


class SteeringStudy(victims.TalkStudy):
    """Cheap talk at test time, as a study."""

    Settings = SteeringSettings
    free = (
        *victims.FREE,
        *(f"steering.{each}" for each in ("low", "high", "steps", "episodes", "oracle_frames")),
    )
    name = "cheap_talk_steering"
    metrics = "victim_last_quarter", "unended"
    captions: Mapping[str, str] = {
        "steering.png": "Places of fresh victims, a line each, for goals (dotted) over the range.",
        **CAPTION,
    }

    def make_problem(self, settings: SteeringSettings) -> SteeringProblem:
        """Return the problem; raises `ConfigError` as `SteeringProblem` does."""
        return SteeringProblem(settings)

    def about(self) -> PlainDict:
        """Return the setting `steering.by`."""
        return {"by": self.settings.steering.by}

    def draw_frame(self, meta_params: Found, figures: Path) -> None:
        """Draw the places of steered victims."""
        config = self.settings.steering
        goals = np.linspace(config.low, config.high, SHOWN)
        course = self._courses(jax.tree.map(jnp.asarray, meta_params), goals.astype(np.float32))
        place = np.where(np.asarray(course.reward) > 0, np.asarray(course.place), np.nan)
        game_plots.plot_courses(place, goals, self.agents.place.what, figures / "steering.png")

    @cached_property
    def _courses(self) -> Callable[[Found, np.ndarray], Course]:
        """Courses of a few fresh victims, [victims, goals, steps]; compiled once."""
        problem = self.agents

        def play(key: jax.Array, found: Found, goals: jax.Array) -> Course:
            train_key, oracle_key, key = jax.random.split(key, 3)
            params = problem.frozen(problem.train_victim(train_key, found["channel"]))
            speak = problem.speaker(found, oracle_key, params)
            return problem.steer(speak, jax.random.split(key, SHOWN), goals, params)

        keys = keys_for(self.settings.run.seed, Purpose.ILLUSTRATION, VICTIMS)
        return jax.jit(lambda found, goals: jax.vmap(lambda key: play(key, found, goals))(keys))

    def judge(
        self, learned: Mapping[str, Found], figures: Path, check_stop: Callable[[], None]
    ) -> GameResult:
        """Steer fresh victims of every channel with every network."""
        del figures
        found = [self._scores(each, check_stop) for each in learned.values()]
        steered = "PPO" if self.agents.by_ppo else LEARNED
        baselines = {"silence": ("silence", "nobody")}
        if self.agents.by_ppo:
            baselines |= {"silence, then PPO": ("silence", steered)}
        else:
            baselines |= {"random": ("random", "a random network")}
        baselines[f"random, then {steered}"] = "random", steered
        scores = {name: each[LEARNED][steered] for name, each in zip(learned, found, strict=True)}
        scores |= {name: found[0][channel][by] for name, (channel, by) in baselines.items()}
        cells = {
            channel: {steerer: mean(each) for steerer, each in row.items()}
            for channel, row in found[0].items()
        }
        budget = "Silence and random networks have no settings to tune."
        return GameResult(scores, budget, self._frames, {"steering": cells})

    def title(self, generations: int) -> tuple[str, str]:
        """Return the victim."""
        return f"Cheap talk at test time: {victims.title_of(self.settings)}", subtitle(generations)

    def findings(self, meta_params: Found, result: PlainMapping) -> list[str]:
        """Return a sentence on how close victims come to their goals."""
        table = result.get("steering")
        if table is None:
            return []
        steerer = LEARNED if "steering" in meta_params else "PPO"
        value, idle = table[LEARNED][steerer][0], table["silence"]["nobody"][0]
        return [
            f"Fresh victims score {value:.2f} ({idle:.2f} in silence); a score of 1 means at the "
            "goal in every step."
        ]

    def tables(self, result: PlainMapping) -> list[Table]:
        """Return the scores of every channel and every network that steers."""
        rows = {
            channel: {name: cells[name] for name in STEERERS if name in cells}
            for channel, cells in result.get("steering", {}).items()
        }
        title = "Score by channel and by who talks then"
        return [estimates_table(title, "channel", rows, note=NOTE)] if rows else []

    @property
    def _frames(self) -> int:
        problem = self.agents
        steered = len(STEERERS) * problem.judged_frames
        return problem.trained_frames + problem.oracle_frames + steered

    def _scores(
        self, found: Found, check_stop: Callable[[], None]
    ) -> dict[str, dict[str, np.ndarray]]:
        """Return the scores [seeds] of fresh victims, by channel and by who steers."""
        problem = self.agents
        weights = jax.tree.map(jnp.asarray, found["channel"])
        shapes = jax.eval_shape(
            lambda key: problem.init_messenger(key, problem.obs_size + 1), jax.random.key(0)
        )
        idle = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        def make_row(key: jax.Array, name: str) -> PlainDict:
            channel_key, steering_key = jax.random.split(jax.random.fold_in(key, 0x57EE))
            draw = channels.HAND_WRITTEN.get(name, lambda _, weights: weights)
            networks = [idle, channels.random(steering_key, idle), found.get("steering", idle)]
            return {
                "channel": draw(channel_key, weights),
                "steering": jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks),
            }

        def run(key: jax.Array, row: PlainDict) -> jax.Array:
            train_key, oracle_key, key = jax.random.split(key, 3)
            params = problem.frozen(problem.train_victim(train_key, row["channel"]))

            def score(found: Found) -> jax.Array:
                return problem.score(problem.speaker(found, oracle_key, params), key, params)[0]

            networks = jax.vmap(lambda steering: score({"steering": steering}))(row["steering"])
            scores = jnp.append(networks, score({}))
            return jnp.where(all_finite(params.victim), scores, jnp.nan)

        fresh = FreshAgents(
            self.settings,
            CHANNELS,
            run,
            frames=self._frames,
            bytes_per_agent=problem.working_set_bytes,
        )
        return {
            channel: {
                steerer: np.asarray(scores)[:, column]
                for column, steerer in enumerate(STEERERS)
                if steerer != LEARNED or "steering" in found
            }
            for channel, scores in fresh(make_row, "comparing", check_stop).items()
        }
