"""The suite `q-learning`: purerl against a loop in NumPy.

The speed of one agent on a CPU is bounded by a chain of dependent scalar operations on one core,
about 90 ns per step. From hundreds of agents on, half of the time is spent on random numbers.
"""

import argparse

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.processes import Sample, own
from experiments.benchmarks.work import Clock, Made, layout

AGENTS = {1: 1_000_000, 30: 100_000, 1024: 100_000}
"""Steps of an agent, by the number of agents."""
NUMPY_STEPS = 100_000


def suite(options: argparse.Namespace) -> Comparison:
    """Tabular Q-learning in GridWorld, against a plain loop in Python and NumPy."""
    comparison = Comparison("steps", "agents", "steps")
    for agents, default in AGENTS.items():
        steps = options.agent_steps or default
        variants = {
            OURS: own("q_learning:ours", agents=agents, steps=steps),
            "NumPy loop, 1 agent": own("q_learning:in_numpy", steps=min(NUMPY_STEPS, steps)),
        }
        comparison.case(variants, options.repeats, agents, steps)
    return comparison


def in_numpy(steps: int) -> Made:
    """One agent in a plain loop in Python with its table in NumPy."""
    from experiments.reproductions.q_learning_loops import numpy_loop

    def measure(repeat: int) -> Sample:
        clock = Clock()
        numpy_loop(steps, seed=repeat)
        return clock.sample(steps)

    return measure, {"layout": "one thread"}


def ours(agents: int, steps: int) -> Made:
    """Agents in the layout that is fastest for their number."""
    from experiments.reproductions.xla_flags import lift_loop_limit
    from metaevo.evolution import devices

    lift_loop_limit()
    devices.setup()
    import jax

    from experiments.reproductions.grid_world import population_of
    from metaevo.evolution.seeding import Purpose, keys_for

    population = population_of(agents, steps)

    def measure(repeat: int) -> Sample:
        rows = population.init(keys_for(repeat, Purpose.TRAINING, agents)).rows
        chunks = jax.block_until_ready(population.place(rows))
        clock = Clock()
        jax.block_until_ready(population.run(chunks, 0, population.num_updates))
        return clock.sample(agents * steps)

    return measure, {"layout": layout(population.num_devices, population.chunk_size)}
