"""The work of the suites: learners, environments and lengths of training; presets."""

from typing import Any, NamedTuple

from metaevo.config import from_dict, load_yaml, merge, presets
from metaevo.config.plain import PlainDict
from metaevo.evolution.problem import MetaProblem
from purerl.types import EnvParams, Hyperparams

Trainee = tuple[Any, EnvParams, Hyperparams]
"""A learner bound to an environment, the environment's parameters, hyperparameters."""

MIN_UPDATES = 4


class Work(NamedTuple):
    """One learner in one environment."""

    frames_per_update: int
    agents: tuple[int, ...]
    """numbers of agents that are measured by default"""
    frames: int
    """environment steps of a measurement, at least; and at least `MIN_UPDATES`"""
    whole: int
    """environment steps of an agent in the whole training, of which the beginning is measured"""
    text: str

    def updates(self, agents: int, frames: int | None) -> int:
        """Return the updates of a measurement, of a whole training at most.

        Args:
            agents: how many train.
            frames: environment steps of all agents, by default those above.
        """
        least = 2 if frames else MIN_UPDATES
        count = round((frames or self.frames) / (agents * self.frames_per_update))
        return min(max(least, count), self.whole // self.frames_per_update)


WORK = {
    ("ppo", "CartPole-v1"): Work(
        4 * 128, (1, 8, 64, 256, 1024, 2048), 2**20, 500_000,
        "4 envs x 128 steps, 4 epochs x 4 minibatches, two networks of 64-64 tanh",
    ),
    ("ppo", "Breakout-MinAtar"): Work(
        64 * 128, (1, 8), 2**18, 10_000_000,
        "64 envs x 128 steps, 4 epochs x 8 minibatches, two networks of 64-64 relu",
    ),
    ("dqn", "CartPole-v1"): Work(
        10 * 100, (1, 8, 64), 2**19, 500_000,
        "10 envs, a minibatch of 128 every 10 steps, 120-84 relu",
    ),
    ("lpg", "GridWorlds"): Work(
        64 * 20, (8,), 2**17, 320_000,
        "64 envs x 20 steps, a table for each agent, grids of 4 x 4 to 10 x 10",
    ),
}  # fmt: skip
LEARNERS = tuple(dict.fromkeys(learner for learner, _ in WORK))
TASKS = tuple(dict.fromkeys(task for _, task in WORK))


def make_learner(name: str, task: str, updates: int) -> Trainee:
    """Return a learner bound to an environment, the environment's parameters, hyperparameters.

    Schedules anneal as in the whole training of which this is the beginning.
    """
    from purerl import dqn, envs, lpg
    from purerl.parts import optimizers

    work = WORK[name, task]
    frames = updates * work.frames_per_update
    learner: Any
    hyperparams: Any
    if name == "dqn":
        env, env_params = envs.make(task)
        # A measurement is short, so learning begins after 1,000 frames instead of 10,000.
        learner = dqn.DQN(dqn.Config(frames, learning_starts=1_000), env)
        hyperparams = dqn.Hyperparams(
            annealing_steps=float(work.whole), epsilon_decay_steps=work.whole / 2
        )
    elif name == "lpg":  # configs/evolve_lpg/groove.yaml
        env, env_params = envs.make(task, size=10, smallest_size=4, max_steps_in_episode=750)
        learner = lpg.LPG(lpg.Config(frames), env, make_optimizer=optimizers.sgd)
        hyperparams = lpg.Hyperparams(learning_rate=40.0, prediction_coef=0.05)
    else:
        learner, env_params, hyperparams = make_ppo(task, frames, work.whole)
    assert learner.config.frames_per_update == work.frames_per_update
    return learner, env_params, hyperparams


def make_ppo(task: str, frames: int, annealing_steps: int) -> Trainee:
    """Return the same for PPO: at CleanRL's settings, in MinAtar at PureJaxRL's."""
    from purerl import envs, ppo
    from purerl.parts import losses

    env, env_params = envs.make(task, observations="flat")
    config, hyperparams = ppo.Config(frames), ppo.Hyperparams()
    if task == "Breakout-MinAtar":  # configs/train/ppo_minatar.yaml
        config = ppo.Config(frames, num_envs=64, num_minibatches=8, activation="relu")
        hyperparams = ppo.Hyperparams(learning_rate=5e-3)
    hyperparams = hyperparams.replace(annealing_steps=float(annealing_steps))
    return ppo.PPO(config, env, value_loss=losses.clipped_squared), env_params, hyperparams


def make_problem(preset: str, changes: PlainDict) -> tuple[MetaProblem, Any]:
    """Return the problem of a preset of configs/ with changes, and its settings."""
    from metaevo.studies import registry

    raw = merge(load_yaml(presets.find(preset)), changes)
    if "study" not in raw:
        raw.setdefault("evolve", preset.partition("/")[0].removeprefix("evolve_"))
    study = registry.find(raw)
    settings = from_dict(study.settings_class(raw), raw)
    return study.make(settings).problem({}), settings
