"""The suite `sweep`: the same PPO trials, as a sweep and one by one.

All variants train with the same learner, environment, range of settings and number of steps. Two of
the references call a training that is compiled once, before the measurement, as our sweep's is; the
third compiles its settings into every trial, as scripts do whose config is a dict of constants.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from experiments.benchmarks.comparison import Table, interval, neighbours, number, with_aim
from experiments.benchmarks.processes import Worker, measure_all, own, progress, spread
from experiments.benchmarks.tasks import Measure

STEPS = 16_384
"""environment steps of a trial: PPO on CartPole-v1 at CleanRL's settings"""
TARGET_RATIO = 5.0
RATES = 1e-4, 1e-2
"""between which the trials' learning rates lie"""


def _parts(steps: int) -> tuple[Any, Any, Any]:
    from metaevo.training.train_learner import Task
    from purerl import envs, ppo
    from purerl.parts import losses

    env, env_params = envs.make("CartPole-v1")
    learner = ppo.PPO(ppo.Config(steps), env, value_loss=losses.clipped_squared)
    return learner, Task("CartPole-v1", learner, env_params), ppo.Hyperparams()


def sweep_vmapped(trials: int, steps: int) -> tuple[Measure, dict[str, Any]]:
    """All trials as one population, asked for and told in one batch."""
    from metaevo.evolution import devices

    devices.setup()
    import jax
    import optuna

    from metaevo.training.fitness import FitnessConfig
    from metaevo.training.population import Population

    _, task, hyperparams = _parts(steps)
    population = Population(task, hyperparams, None, FitnessConfig())
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
        agents = population.init(jax.random.split(jax.random.key(repeat), 1), settings)
        agents = population.advance(agents, population.num_updates)
        for trial, score in zip(asked, population.scores(agents)[:, 0], strict=True):
            study.tell(trial, score)
        return _result(start, cpu, trials)

    layout = f"{population.num_devices} devices, chunks of {population.chunk_size}"
    return measure, {"layout": layout}


def sweep_one_by_one(
    trials: int, steps: int, optuna_drives: bool, constants: bool
) -> tuple[Measure, dict[str, Any]]:
    """The training of one trial, called again and again; by Optuna, or by a plain loop."""
    import jax
    import optuna

    from purerl.parts.evaluation import mean_return

    learner, task, hyperparams = _parts(steps)
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def train_once(key, hyperparams):
        return mean_return(learner.train(key, hyperparams, None, task.env_params).episodes)

    train = jax.jit(train_once)

    def measure(repeat):
        key = jax.random.key(repeat)

        def objective(trial):
            rate = trial.suggest_float("learning_rate", *RATES, log=True)
            settings = hyperparams.replace(learning_rate=rate)
            if constants:
                return float(jax.jit(lambda key: train_once(key, settings))(key))
            return float(train(key, settings))

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


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Trials of PPO on CartPole-v1: one vmapped sweep, one after another, and Optuna's own loop."""
    few = max(2, options.trials // 16)  # of the references, which take long; a rate is compared
    alone = "sweep_one_by_one"
    variants: dict[str, tuple[str, int, dict[str, Any]]] = {
        "sweep": ("sweep_vmapped", options.trials, {}),
        "one by one": (alone, few, {"optuna_drives": False, "constants": False}),
        "Optuna calls train": (alone, few, {"optuna_drives": True, "constants": False}),
        "Optuna, compiled each time": (alone, 2, {"optuna_drives": True, "constants": True}),
    }
    with ExitStack() as stack:
        workers = {}
        for name, (worker, trials, arguments) in variants.items():
            progress(f"sweep: {name} compiles")
            variant = own(
                worker, default_flags=name != "sweep", trials=trials, steps=STEPS, **arguments
            )
            workers[name] = stack.enter_context(Worker(name, variant))
        results = measure_all(workers, options.repeats)
        abouts = {name: worker.about for name, worker in workers.items()}
    rates = {
        name: [60 * each["trials"] / each["seconds"] for each in measured]
        for name, measured in results.items()
    }
    rows: list[dict[str, Any]] = []
    table = Table(
        "variant", "trials a minute: median [min, max]", "the sweep is faster: median [min, max]",
        "compile, s", "peak MiB", "layout",
    )  # fmt: skip
    for name, values in rates.items():
        row = {"variant": name, **spread(values), **abouts[name], "rates": values}
        row["peak_bytes"] = max(each["peak_bytes"] for each in results[name])
        faster = ""
        if name != "sweep":
            row["sweep_is_faster"] = ratio = neighbours(rates["sweep"], values)
            faster = with_aim(interval(ratio), ratio["median"], TARGET_RATIO)
        rows.append(row)
        table.row(
            name, interval(row), faster, number(row["compile_seconds"]),
            number(row["peak_bytes"] / 2**20, 4), row["layout"],
        )  # fmt: skip
    work = f"{options.trials} trials of PPO, CartPole-v1, {STEPS} steps each, one seed"
    return {"rows": rows, "work": work}
