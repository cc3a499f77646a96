"""The suite `q-learning`: ours, and the loop in NumPy it is held against.

What bounds ours on a CPU: one agent is a chain of dependent scalar operations on one core, about
90 ns a step. A few agents are as many such chains, one after another on every core: batching them
costs more than it gains. From hundreds on, chunks of 128 agents are vectorised, and half of the
time goes to random numbers; longer stretches or larger chunks would push those out of the cache.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from experiments.benchmarks.comparison import Table, interval, neighbours, number, with_aim
from experiments.benchmarks.processes import Worker, measure_all, own, progress, spread
from experiments.benchmarks.tasks import Measure

CASES = {1: (1_000_000, 40.0), 30: (100_000, 120.0), 1024: (100_000, 400.0)}
"""By number of agents: the steps of each, and the speed we aim at in multiples of NumPy's."""
NUMPY_STEPS = 100_000
LOOP = "NumPy loop"


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Tabular Q-learning in GridWorld, against a plain loop in Python and NumPy."""
    loop_steps = min(NUMPY_STEPS, options.agent_steps or NUMPY_STEPS)
    sizes = {n: (options.agent_steps or steps) for n, (steps, _) in CASES.items()}
    names = {f"{n:,} agent{'s' * (n > 1)} x {steps:,}": n for n, steps in sizes.items()}
    total = {LOOP: loop_steps} | {name: n * sizes[n] for name, n in names.items()}
    variants = {LOOP: own("q_numpy", steps=loop_steps)}
    variants |= {name: own("q_ours", agents=n, steps=sizes[n]) for name, n in names.items()}
    with ExitStack() as stack:
        workers = {}
        for name, variant in variants.items():
            progress(f"q-learning: {name} compiles")
            workers[name] = stack.enter_context(Worker(name, variant))
        results = measure_all(workers, options.repeats)
        abouts = {name: worker.about for name, worker in workers.items()}
    rates = {name: [total[name] / each["seconds"] for each in results[name]] for name in total}
    table = Table(
        "variant", "steps/s: median [min, max]", "per CPU second",
        "faster than NumPy: median [min, max]", "compile, s", "peak MiB", "layout",
    )  # fmt: skip
    rows = []
    for name, values in rates.items():
        row: dict[str, Any] = {"variant": name, **spread(values), **abouts[name], "rates": values}
        per_cpu = spread(total[name] / each["cpu_seconds"] for each in results[name])
        row["per_cpu_second"] = per_cpu["median"]
        row["peak_bytes"] = max(each["peak_bytes"] for each in results[name])
        row["faster"] = neighbours(values, rates[LOOP])
        aim = CASES[names[name]][1] if name in names else None
        rows.append(row)
        table.row(
            name, interval(row), number(row["per_cpu_second"]),
            with_aim(interval(row["faster"]), row["faster"]["median"], aim),
            number(row["compile_seconds"]), number(row["peak_bytes"] / 2**20, 4), row["layout"],
        )  # fmt: skip
    return {"rows": rows, "work": "Q-learning, GridWorld 8 x 8"}


def q_numpy(steps: int) -> tuple[Measure, dict[str, Any]]:
    """The reference: one agent in a plain loop in Python, its table in NumPy."""
    from experiments.reproductions.q_learning_loops import numpy_loop

    def measure(repeat):
        cpu = time.process_time()
        _, seconds = numpy_loop(steps, seed=repeat)
        return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}

    return measure, {"layout": "one thread"}


def q_ours(agents: int, steps: int) -> tuple[Measure, dict[str, Any]]:
    """Agents compiled, in the layout that is fastest for their number."""
    from experiments.reproductions.xla_flags import lift_loop_limit
    from metaevo.evolution import devices

    lift_loop_limit()
    devices.setup()
    import jax

    from experiments.reproductions.grid_world import make_learner
    from metaevo.evolution.seeding import Purpose, keys_for
    from metaevo.training.fitness import FitnessConfig
    from metaevo.training.population import Population
    from metaevo.training.train_learner import Task

    learner, hyperparams, env_params, chunk_size = make_learner(agents, steps)
    updates = learner.config.num_updates
    population = Population(
        Task("GridWorld", learner, env_params),
        hyperparams,
        None,
        FitnessConfig(),
        agents=agents,
        log_every=-(-updates // 100),
        metrics=True,
        chunk_size=chunk_size,
    )

    def measure(repeat):
        chunks = population.place(population.init(keys_for(repeat, Purpose.TRAINING, agents)).rows)
        chunks = jax.block_until_ready(chunks)
        start, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(population.run(chunks, 0, updates))
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}

    layout = f"{population.num_devices} devices, chunks of {population.chunk_size}"
    return measure, {"layout": layout}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "q_numpy": q_numpy,
    "q_ours": q_ours,
}
