"""What the suites train: learners, environments and lengths, and how a call is measured."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

Measure = Callable[[int], dict[str, float]]


class Work(NamedTuple):
    """What one learner does in one environment."""

    frames_per_update: int
    agents: tuple[int, ...]
    """numbers of agents that are measured unless the command line says otherwise"""
    frames: int
    """environment steps of a measurement, at least; and at least `MIN_UPDATES`"""
    whole: int
    """environment steps of an agent in the training whose beginning is measured"""
    text: str


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


def make_learner(name: str, task: str, updates: int) -> tuple[Any, Any, Any]:
    """A learner bound to an environment, that environment's parameters, and hyperparameters.

    Schedules anneal as in the whole run of which this is the beginning.
    """
    from purerl import dqn, envs, lpg, ppo
    from purerl.parts import losses, optimizers

    work = WORK[name, task]
    frames = updates * work.frames_per_update
    learner: Any
    hyperparams: Any
    if name == "dqn":
        env, env_params = envs.make(task)
        # A measurement is short: what it measures is learning, not waiting for 10,000 frames.
        learner = dqn.DQN(dqn.Config(frames, learning_starts=1_000), env)
        hyperparams = dqn.Hyperparams(
            annealing_steps=float(work.whole), epsilon_decay_steps=work.whole / 2
        )
    elif name == "lpg":  # configs/evolve_lpg/groove.yaml
        env, env_params = envs.make(task, size=10, smallest_size=4, max_steps_in_episode=750)
        learner = lpg.LPG(lpg.Config(frames), env, make_optimizer=optimizers.sgd)
        hyperparams = lpg.Hyperparams(learning_rate=40.0, prediction_coef=0.05)
    elif task == "Breakout-MinAtar":  # configs/train/ppo_minatar.yaml
        env, env_params = envs.make(task, observations="flat")
        config = ppo.Config(
            frames, num_envs=64, num_steps=128, num_minibatches=8, activation="relu"
        )
        learner = ppo.PPO(config, env, value_loss=losses.clipped_squared)
        hyperparams = ppo.Hyperparams(learning_rate=5e-3, annealing_steps=float(work.whole))
    else:
        env, env_params = envs.make(task)
        learner = ppo.PPO(ppo.Config(frames), env, value_loss=losses.clipped_squared)
        hyperparams = ppo.Hyperparams(annealing_steps=float(work.whole))
    assert learner.config.frames_per_update == work.frames_per_update
    return learner, env_params, hyperparams


def timed(compiled: Callable[[Any], Any], make_input: Callable[[int], Any]) -> Measure:
    """Return a function that measures one call on a fresh input."""
    import jax

    def measure(repeat):
        argument = jax.block_until_ready(make_input(repeat))
        start, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(compiled(argument))
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
        }

    return measure
