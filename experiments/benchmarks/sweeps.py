"""The suite `sweep`: the same PPO trials, as a sweep and one by one.

All variants train with the same learner, environment, range of settings and number of steps. Two
references, like our sweep, call a training that is compiled once before the measurement. The third
compiles its settings into every trial, like a script with a config of constants.
"""

import argparse
from typing import Any

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.processes import Sample, own
from experiments.benchmarks.work import Clock, Made, layout

STEPS = 16_384
"""environment steps of a trial: PPO on CartPole-v1 at CleanRL's settings"""
RATES = 1e-4, 1e-2
"""bounds of the learning rate"""
ONE_BY_ONE = {
    "one by one": {"optuna_drives": False, "constants": False},
    "Optuna calls train": {"optuna_drives": True, "constants": False},
    "Optuna, compiled each time": {"optuna_drives": True, "constants": True},
}


def suite(options: argparse.Namespace) -> Comparison:
    """Trials of PPO on CartPole-v1: one vmapped sweep, one after another, and Optuna's own loop."""
    few = max(2, options.trials // 16)  # of the references, which take long
    variants = {OURS: own("sweeps:vmapped", trials=options.trials)}
    for name, how in ONE_BY_ONE.items():
        trials = 2 if how["constants"] else few
        variants[name] = own("sweeps:one_by_one", how, default_flags=True, trials=trials)
    comparison = Comparison("trials", "steps of a trial")
    comparison.case(variants, options.repeats, STEPS)
    return comparison


# --- In the worker's process ----------------------------------------------------------------------


def _parts() -> tuple[Any, Any, Any]:
    import optuna

    from metaevo.training.train_learner import Task
    from purerl import envs, ppo
    from purerl.parts import losses

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    env, env_params = envs.make("CartPole-v1")
    learner = ppo.PPO(ppo.Config(STEPS), env, value_loss=losses.clipped_squared)
    return learner, Task("CartPole-v1", learner, env_params), ppo.Hyperparams()


def _study(seed: int) -> Any:
    import optuna

    return optuna.create_study(
        direction="maximize", sampler=optuna.samplers.RandomSampler(seed=seed)
    )


def vmapped(trials: int) -> Made:
    """All trials as one population, sampled and reported in one batch."""
    from metaevo.evolution import devices

    devices.setup()
    import jax
    import optuna

    from metaevo.training.fitness import FitnessConfig
    from metaevo.training.population import Population

    _, task, hyperparams = _parts()
    population = Population(task, hyperparams, None, FitnessConfig())
    space: dict[str, Any] = {
        "learning_rate": optuna.distributions.FloatDistribution(*RATES, log=True)
    }

    def measure(repeat: int) -> Sample:
        clock, study = Clock(), _study(repeat)
        asked = [study.ask(space) for _ in range(trials)]
        settings = [hyperparams.replace(**trial.params) for trial in asked]
        agents = population.init(jax.random.split(jax.random.key(repeat), 1), settings)
        agents = population.advance(agents, population.num_updates)
        for trial, score in zip(asked, population.scores(agents)[:, 0], strict=True):
            study.tell(trial, score)
        return clock.sample(trials)

    return measure, {"layout": layout(population.num_devices, population.chunk_size)}


def one_by_one(trials: int, optuna_drives: bool, constants: bool) -> Made:
    """The training of one trial, called repeatedly by Optuna or by a plain loop."""
    import jax

    from purerl.parts.evaluation import mean_return

    learner, task, hyperparams = _parts()

    def train_once(key, hyperparams):
        return mean_return(learner.train(key, hyperparams, None, task.env_params).episodes)

    train = jax.jit(train_once)

    def measure(repeat: int) -> Sample:
        key = jax.random.key(repeat)

        def objective(trial: Any) -> float:
            rate = trial.suggest_float("learning_rate", *RATES, log=True)
            settings = hyperparams.replace(learning_rate=rate)
            if constants:
                return float(jax.jit(lambda key: train_once(key, settings))(key))
            return float(train(key, settings))

        clock = Clock()
        if optuna_drives:
            _study(repeat).optimize(objective, trials)
        else:
            for index in range(trials):
                rate = RATES[0] * (RATES[1] / RATES[0]) ** (index / trials)
                train(key, hyperparams.replace(learning_rate=rate)).block_until_ready()
        return clock.sample(trials)

    return measure, {"layout": "one trial at a time, XLA's default device"}
