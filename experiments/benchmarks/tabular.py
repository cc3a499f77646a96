"""What the processes of the suite `q-learning` run: ours, and the loop in NumPy it is held against.

What bounds ours on a CPU: one agent is a chain of dependent scalar operations on one core, about
90 ns a step. A few agents are as many such chains, one after another on every core: batching them
costs more than it gains. From hundreds on, chunks of 128 agents are vectorised, and half of the
time goes to random numbers; longer stretches or larger chunks would push those out of the cache.
"""

import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks.training import Measure

CASES = {1: (1_000_000, 40.0), 30: (100_000, 120.0), 1024: (100_000, 400.0)}
"""By number of agents: the steps of each, and the speed we aim at in multiples of NumPy's."""
NUMPY_STEPS = 100_000


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
    from metaevo import devices

    lift_loop_limit()
    devices.setup()
    import jax

    from experiments.reproductions.grid_world import make_learner
    from metaevo.population import Population
    from metaevo.seeding import Purpose, keys_for

    learner, hyperparams, env_params, chunk_size = make_learner(agents, steps)
    updates = learner.config.num_updates
    population = Population(
        learner,
        hyperparams,
        None,
        env_params,
        agents=agents,
        log_every=-(-updates // 100),
        chunk_size=chunk_size,
    )

    def measure(repeat):
        state = population.init(keys_for(repeat, Purpose.TRAINING, agents))
        state = jax.block_until_ready(state)
        start, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(population.run(state, 0, updates))
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}

    layout = f"{population.num_devices} devices, chunks of {population.chunk_size}"
    return measure, {"layout": layout}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "q_numpy": q_numpy,
    "q_ours": q_ours,
}
