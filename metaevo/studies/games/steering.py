"""Cheap talk at test time (Lu et al. 2023): messages that bring a frozen victim to a goal.

The victim trains with one channel; then it is frozen, acts by its likeliest action, and hears a
second network, which sees a goal. Both networks are evolved together, or only the channel, where
PPO trains the second one for each victim (the oracle).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metaevo import statistics
from metaevo.comparison import comparison
from metaevo.components.component import LEARNED
from metaevo.evolution import devices
from metaevo.evolution.problem import Evaluation
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import talk_plots
from metaevo.reports.numbers import estimate
from metaevo.reports.page import Table
from metaevo.runs import checkpoint
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.games import victims
from metaevo.studies.games.steering_settings import SteeringSettings
from metaevo.studies.games.talker import Talker
from metaevo.studies.study import Plain, subtitle
from metaevo.training.checks import check_agents
from metaevo.training.fitness import all_finite
from metaevo.training.train_learner import working_set
from purerl.envs.steering import PLACES, Course, steer
from purerl.learners import num_frames
from purerl.parts import channels
from purerl.parts.channels import Weights

CHANNELS = (LEARNED, "silence", "random")
"""With which victims of the comparison train."""
STEERERS = ("nobody", "a random network", LEARNED, "PPO")
"""Who talks to them then."""
SHOWN, VICTIMS = 5, 8
"""Goals and victims of the picture."""


Found = dict[str, Weights]
"""The meta-parameters: of the "channel", and of the "steering" unless PPO trains that."""


class SteeringProblem:
    """A `MetaProblem`: train a victim, freeze it, and steer it."""

    differentiable = False
    """as actions are drawn"""

    def __init__(self, talker: Talker):
        """Bind the parts."""
        self.talker = talker
        settings = talker.settings
        self.by_ppo = settings.steering.by == "ppo"
        self.frames = num_frames(settings.train) + _played(settings)
        self.working_set_bytes = working_set(talker.task, settings.hyperparams, None)
        if self.by_ppo:
            self.frames += num_frames(talker.oracle.config)

    def init(self, key: jax.Array) -> Found:
        """Draw the weights of both networks."""
        network, size = self.talker.messenger, self.talker.obs_size
        own_key, key = jax.random.split(key)
        found = {"channel": network.init(key, jnp.zeros(size))}
        if not self.by_ppo:
            found["steering"] = network.init(own_key, jnp.zeros(size + 1))
        return found

    def evaluate(self, key: jax.Array, meta_params: Found) -> Evaluation:
        """Train a victim from scratch, and judge where it goes."""
        train_key, oracle_key, key = jax.random.split(key, 3)
        params, result = self.talker.trained(train_key, meta_params["channel"])
        if self.by_ppo:
            speak = self.talker.taught(oracle_key, params)
        else:
            speak = self.talker.saying(meta_params["steering"])
        near, going = self.talker.score(speak, key, params)
        return Evaluation(
            jnp.where(all_finite(params.victim), near, jnp.nan),
            {"victim_last_quarter": victims.last_quarter(result.episodes), "unended": going},
        )


class SteeringStudy(Plain):
    """Conforms to `metaevo.studies.study.Study`."""

    name = "cheap_talk_steering"
    captions: Mapping[str, str] = {
        "steering.png": "Where fresh victims go, a line each, for goals (dotted) over the range.",
    }

    def __init__(
        self,
        settings: SteeringSettings,
        run_path: Path | None = None,
        *,
        trust_source: bool = False,
    ):
        """Build victim and steering.

        Args:
            settings: of the evolution.
            run_path: of no use: nothing of other runs is needed.
            trust_source: of no use: no code is loaded.

        Raises:
            ConfigError: as `Talker`.
        """
        del run_path, trust_source
        self.settings = settings
        self.talker = Talker(settings)

    def check(self) -> None:
        """Find out whether strategy, victims and devices fit."""
        check_agents(self.problem({}), [self.talker.task], self.settings)

    def problem(self, measured: Mapping[str, Any]) -> SteeringProblem:
        """Return the problem: a victim's training, and its steering."""
        del measured
        return SteeringProblem(self.talker)

    def save(self, directory: RunDirectory, meta_params: Found, generation: int) -> None:
        """Write both networks."""
        about = {"by": self.settings.steering.by, "generation": generation}
        checkpoint.save_tree(directory.meta_params, jax.device_get(meta_params), about)

    def draw(self, meta_params: Found, figures: Path) -> None:
        """Draw where victims go."""
        found = jax.tree.map(jnp.asarray, meta_params)
        config = self.settings.steering
        goals = np.linspace(config.low, config.high, SHOWN)

        def play(key: jax.Array) -> Course:
            train_key, oracle_key, key = jax.random.split(key, 3)
            params, _ = self.talker.trained(train_key, found["channel"])
            if "steering" not in found:
                speak = self.talker.taught(oracle_key, params)
            else:
                speak = self.talker.saying(found["steering"])
            keys = jax.random.split(key, SHOWN)
            return jax.vmap(lambda key, goal: steer(self.talker.env, speak, key, goal, params))(
                keys, jnp.asarray(goals, jnp.float32)
            )

        keys = keys_for(self.settings.run.seed, Purpose.ILLUSTRATION, VICTIMS)
        course = jax.jit(jax.vmap(play))(keys)
        place = np.where(np.asarray(course.reward) > 0, np.asarray(course.place), np.nan)
        what = PLACES[self.talker.task.name].what
        talk_plots.plot_courses(place, goals, what, figures / "steering.png")

    def compare(
        self,
        learned: Mapping[str, Found],
        path: Path,
        *,
        evolution_frames: int,
        measured: Mapping[str, Any],
        check_stop: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Steer fresh victims of every channel in every way."""
        del path, measured
        seeds = self.settings.evaluation.seeds
        if not seeds:
            return None
        by_ppo = "steering" not in next(iter(learned.values()))
        steered = STEERERS.index("PPO" if by_ppo else LEARNED)
        own: dict[str, tuple[int, int]] = {"silence": (1, 0)}
        if by_ppo:
            own |= {"silence, then PPO": (1, steered), "random, then PPO": (2, steered)}
        else:
            own |= {"random": (2, 1), "random, then learned": (2, steered)}
        tables = {}
        for name, found in reversed(
            list(learned.items())
        ):  # the tables below are those of the first
            scores, frames = self._scores(found, seeds, check_stop)
            tables[name] = scores[0, :, steered]
        tables = {name: tables[name] for name in learned}
        tables |= {name: scores[channel, :, steerer] for name, (channel, steerer) in own.items()}
        tables = {name: np.asarray(each, np.float64)[:, None] for name, each in tables.items()}
        return {
            **comparison.summary(
                [comparison.Variant(name, name, {}, 0) for name in tables],
                statistics.fill_missing(tables),
                {name: int(np.isnan(each).sum()) for name, each in tables.items()},
                list(learned),
            ),
            **comparison.UNTUNED,
            "budget": "There is nothing to tune of silence and random networks.",
            "frames_per_agent": frames,
            "evolution_frames": evolution_frames,
            "steering": {
                channel: {
                    steerer: list(map(float, np.ravel(statistics.mean_curve(cell[:, None]))))
                    for steerer, cell in zip(STEERERS, scores[place].T, strict=True)
                    if not np.isnan(cell).all()
                }
                for place, channel in enumerate(CHANNELS)
            },
        }

    def title(self, generations: int) -> tuple[str, str]:
        """Return who is steered."""
        settings = self.settings
        learner = settings.learner.upper().replace("_", "-")
        return (
            f"Cheap talk at test time: {learner} on {settings.task.env}",
            subtitle(generations),
        )

    def findings(self, meta_params: Found, result: Mapping[str, Any]) -> list[str]:
        """Return how near victims come to their goals."""
        table = result.get("steering")
        if table is None:
            return []
        found = next(name for name in (LEARNED, "PPO") if name in table[LEARNED])
        if "steering" not in meta_params:
            found = "PPO"
        value, idle = table[LEARNED][found][0], table["silence"]["nobody"][0]
        return [f"Fresh victims score {value:.2f} ({idle:.2f} in silence); 1 is to be at the goal."]

    def tables(self, result: dict[str, Any]) -> list[Table]:
        """Return the scores of every channel and everything that steers."""
        table = result.get("steering")
        if table is None:
            return []
        columns = [name for name in STEERERS if name in table[LEARNED]]
        rows = [
            [channel, *(estimate(*cells[name], decimals=2) for name in columns)]
            for channel, cells in table.items()
        ]
        return [Table("Score by channel and by who talks then", ["channel", *columns], rows, NOTE)]

    def _scores(
        self, found: Found, seeds: int, check_stop: Callable[[], None]
    ) -> tuple[np.ndarray, int]:
        """Return scores [channels, seeds, steerers], NaN where there is none; and frames a row."""
        talker, settings = self.talker, self.settings
        keys = keys_for(settings.run.seed, Purpose.HELD_OUT, seeds)
        weights = jax.tree.map(jnp.asarray, found["channel"])
        example = jax.eval_shape(
            lambda key: talker.messenger.init(key, jnp.zeros(talker.obs_size + 1)),
            jax.random.key(0),
        )

        def row(key, name):
            channel_key, steering_key = jax.random.split(jax.random.fold_in(key, 0x57EE))
            own = weights
            if name != LEARNED:
                own = channels.HAND_WRITTEN[name](channel_key, weights)
            idle = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)
            networks = [idle, channels.random(steering_key, idle), found.get("steering", idle)]
            return {
                "key": jax.random.key_data(key),
                "channel": own,
                "steering": jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks),
            }

        rows = [
            jax.device_get(jax.vmap(lambda key, name=name: row(key, name))(keys))
            for name in CHANNELS
        ]
        together = jax.tree.map(lambda *leaves: np.concatenate(leaves), *rows)

        def run(row: dict[str, Any]) -> jax.Array:
            key = jax.random.wrap_key_data(row["key"])
            train_key, oracle_key, key = jax.random.split(key, 3)
            params, _ = talker.trained(train_key, row["channel"])
            networks, _ = jax.vmap(lambda each: talker.score(talker.saying(each), key, params))(
                row["steering"]
            )
            best, _ = talker.score(talker.taught(oracle_key, params), key, params)
            scores = jnp.append(networks, best)
            return jnp.where(all_finite(params.victim), scores, jnp.nan)

        frames = num_frames(settings.train) + num_frames(talker.oracle.config)
        frames += len(STEERERS) * _played(settings)
        count, num_devices = len(CHANNELS) * seeds, settings.evolution.num_devices
        chunk_size = settings.evolution.chunk_size or devices.choose_chunk_size(
            count, working_set(talker.task, settings.hyperparams, None), num_devices
        )
        program = devices.RowMap(run, chunk_size=chunk_size, num_devices=num_devices)
        with Progress(total=frames * count, desc="comparing", unit="frame", unit_scale=True) as bar:

            def progress(agents: int) -> None:
                bar.update(agents * frames)
                check_stop()

            scores = np.asarray(program(together, progress)).reshape(len(CHANNELS), seeds, -1)
        if "steering" not in found:
            scores[..., STEERERS.index(LEARNED)] = np.nan
        return scores, frames


NOTE = (
    "Means over fresh victims with 95% intervals of exp(-(place - goal)^2) a step, and 0 after an "
    "episode's end. Rows: what victims heard while they trained. Columns: who talks to them when "
    "they are frozen; PPO is trained for each victim."
)


def _played(settings: SteeringSettings) -> int:
    """Environment steps of one judgement."""
    return settings.steering.steps * settings.steering.episodes
