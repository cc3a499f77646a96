"""What the processes of the suite `sweep` run: the same PPO trials, as a sweep and one by one.

All variants train the same settings on the same keys with the same learner, compiled before the
measurement: the references pay for no compilation either.
"""

import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks.training import Measure

STEPS = 16_384
"""environment steps of a trial: PPO on CartPole-v1 at CleanRL's settings"""
RATES = 1e-4, 1e-2
"""between which the trials' learning rates lie"""


def _parts(steps: int) -> tuple[Any, Any, Any]:
    from metaevo.problems.train_learner import Task
    from purerl import envs, losses, ppo

    env, env_params = envs.make("CartPole-v1")
    learner = ppo.PPO(ppo.Config(steps), env, value_loss=losses.clipped_squared)
    return learner, Task("CartPole-v1", learner, env_params), ppo.Hyperparams()


def sweep_vmapped(trials: int, steps: int) -> tuple[Measure, dict[str, Any]]:
    """All trials as one population, asked for and told in one batch."""
    from metaevo import devices

    devices.setup()
    import jax
    import optuna

    from metaevo.problems.fitness import FitnessConfig
    from metaevo.sweep.trainer import Trainer

    _, task, hyperparams = _parts(steps)
    trainer = Trainer(task, None, hyperparams, FitnessConfig())
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, Any] = {
        "learning_rate": optuna.distributions.FloatDistribution(*RATES, log=True)
    }

    def measure(repeat):
        start, cpu = time.perf_counter(), time.process_time()
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.RandomSampler(seed=repeat)
        )
        asked = [study.ask(space) for _ in range(trials)]
        settings = [hyperparams.replace(**trial.params) for trial in asked]
        agents = trainer.start(settings, jax.random.split(jax.random.key(repeat), 1))
        agents = trainer.advance(agents, trainer.num_updates)
        for trial, score in zip(asked, trainer.scores(agents)[:, 0], strict=True):
            study.tell(trial, score)
        return _result(start, cpu, trials)

    layout = f"{trainer.num_devices} devices, chunks of {trainer.chunk_size}"
    return measure, {"layout": layout}


def sweep_one_by_one(trials: int, steps: int, optuna_drives: bool) -> tuple[Measure, dict]:
    """The compiled training of one trial, called again and again; by Optuna, or by a plain loop."""
    import jax
    import optuna

    from purerl.evaluation import mean_return

    learner, task, hyperparams = _parts(steps)
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    @jax.jit
    def train(key, hyperparams):
        return mean_return(learner.train(key, hyperparams, None, task.env_params).episodes)

    def measure(repeat):
        key = jax.random.key(repeat)

        def objective(trial):
            rate = trial.suggest_float("learning_rate", *RATES, log=True)
            return float(train(key, hyperparams.replace(learning_rate=rate)))

        start, cpu = time.perf_counter(), time.process_time()
        sampler = optuna.samplers.RandomSampler(seed=repeat)
        if optuna_drives:
            optuna.create_study(direction="maximize", sampler=sampler).optimize(objective, trials)
        else:
            for index in range(trials):
                rate = RATES[0] * (RATES[1] / RATES[0]) ** (index / trials)
                train(key, hyperparams.replace(learning_rate=rate)).block_until_ready()
        return _result(start, cpu, trials)

    return measure, {"layout": "one trial at a time, XLA's default device"}


def _result(start: float, cpu: float, trials: int) -> dict[str, float]:
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "trials": trials,
    }


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "sweep_vmapped": sweep_vmapped,
    "sweep_one_by_one": sweep_one_by_one,
}
