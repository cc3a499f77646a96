"""The suite `scaling`: what a generation costs beside training, and a model of many devices.

Measured here: the outer loop (ask, tell, gather) of a problem whose evaluation is one sum, which
every device repeats for the whole population, and an evolution for Q-learning on 1, 2 and 4 host
devices (the suite `devices` measures PPO).
Extrapolated: GPUs, from what XLA says that the program reads and writes and from published rates.
"""

import argparse
import math
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import Table, interval, number
from experiments.benchmarks.processes import Worker, measure_all, own, progress, spread

Measure = Callable[[int], dict[str, float]]
DEVICES = (1, 2, 4)
SHAPES = ((64, 64), (1024, 64), (1024, 16))
"""population and units in the two hidden layers of the loss network"""
GENERATIONS = 2
"""of one measurement of the outer loop"""
GPU = {"frames": 3.1e6, "bandwidth": 696e9, "memory": 48e9}
"""An A40: frames/s of PPO on CartPole as the PureJaxRL blog reports them; bytes/s and bytes of its
data sheet."""
NETWORK = {"latency": 50e-6, "bandwidth": 25e9}
"""Assumed: seconds of one step of a collective, bytes/s between two GPUs (200 Gbit/s)."""
BLOG = {"frames": 500_000, "candidates": 512, "generations": 1024, "metrics": 3}
"""configs/evolve_value_loss/blog.yaml, without validation."""

_BYTES = {"f32": 4, "s32": 4, "u32": 4, "pred": 1, "f64": 8, "bf16": 2}


def outer_loops(num_devices: int) -> tuple[Measure, dict[str, Any]]:
    """Generations of all SHAPES in which a candidate costs one sum over its parameters.

    Measured in CPU seconds of one device: all of them do the same, at once where each has a core.
    """
    from metaevo.parallel import devices

    devices.setup(num_devices)
    import jax
    import jax.numpy as jnp

    from metaevo.components import value_loss
    from metaevo.outer_loop.evolution import Evolution, EvolutionConfig
    from metaevo.outer_loop.problem import Evaluation
    from metaevo.outer_loop.strategy import StrategyConfig

    class Sum:
        """Conforms to `metaevo.outer_loop.problem.MetaProblem`."""

        def __init__(self, hidden):
            config = value_loss.Config(hidden_sizes=(hidden, hidden))
            self.init = value_loss.make(config).init

        def evaluate(self, key, meta_params):
            squares = jax.tree.map(lambda leaf: jnp.sum(jnp.square(leaf)), meta_params)
            return Evaluation(-jnp.sum(jnp.stack(jax.tree.leaves(squares))), {})

    config = EvolutionConfig(validation_seeds=0)
    measures, abouts = {}, {}
    for population, hidden in SHAPES:
        strategy = StrategyConfig(population_size=population)
        evolution = Evolution(Sum(hidden), strategy, config, seed=0)
        name = f"{population} {hidden}"
        measures[name], abouts[name] = _measure(evolution, GENERATIONS)

    def measure(repeat: int) -> dict[str, float]:
        return {name: each(repeat)["cpu_seconds"] for name, each in measures.items()}

    return measure, abouts


def training(num_devices: int) -> tuple[Measure, dict[str, Any]]:
    """Generations of Q-learning's preset with a quarter of its frames."""
    from metaevo.parallel import devices

    devices.setup(num_devices)
    from metaevo.config import from_dict, load_yaml
    from metaevo.outer_loop.evolution import Evolution
    from metaevo.studies.learner import LearnerStudy
    from metaevo.studies.settings import experiment_class

    root = Path(__file__).resolve().parent.parent.parent
    raw = load_yaml(root / "configs/evolve_value_loss/q_learning.yaml")
    raw["train"]["total_timesteps"] //= 4
    raw["evolution"]["validation_seeds"] = 0
    settings: Any = from_dict(experiment_class(raw, "value_loss"), raw)
    problem = LearnerStudy(settings).problem({})
    return _measure(Evolution(problem, settings.strategy, settings.evolution, seed=0), 1)


def _measure(evolution: Any, generations: int) -> tuple[Measure, dict[str, Any]]:
    import jax

    from metaevo.parallel import devices
    from metaevo.runs import checkpoint

    state = evolution.init()
    needed = evolution.compile()
    program = evolution.program
    with tempfile.TemporaryDirectory() as directory:
        path = checkpoint.save(Path(directory), 0, jax.device_get(devices.first(state)))
        saved = sum(file.stat().st_size for file in path.iterdir())
    leaves = jax.tree.leaves(evolution.template)
    about = {
        "dimensions": sum(leaf.size for leaf in jax.tree.leaves(evolution.template.elite)),
        "rows": evolution.evaluations,
        "chunk_size": evolution.chunk_size,
        "gathered_bytes": gathered_bytes(program.as_text()),
        "accessed_bytes": program.cost_analysis()["bytes accessed"],
        "program_bytes": needed,
        "state_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in leaves),
        "saved_bytes": saved,
    }

    def measure(repeat: int) -> dict[str, float]:
        nonlocal state
        start, cpu = time.perf_counter(), time.process_time()
        state, _ = evolution.run_block(state, generations)
        return {
            "seconds": (time.perf_counter() - start) / generations,
            "cpu_seconds": (time.process_time() - cpu) / generations / evolution.num_devices,
            "frames": evolution.frames(1),
        }

    return measure, about


def gathered_bytes(hlo: str) -> int:
    """Return what one device receives in all `all-gather` operations of a compiled program."""
    total = 0
    for shapes in re.findall(r"= (.*?) all-gather(?:-start)?\(", hlo):
        for dtype, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
            total += _BYTES[dtype] * math.prod(int(n) for n in dimensions.split(",") if n)
    return total


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "outer_loops": outer_loops,
    "scaling_training": training,
}

# --- The model --------------------------------------------------------------------------------


def fit(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return `(a, b)` of y = a + b x with the least relative error, neither below zero.

    Args:
        points: pairs of x and y > 0.
    """
    weights = [(1 / y, x / y) for x, y in points]
    aa = sum(u * u for u, _ in weights)
    ab = sum(u * v for u, v in weights)
    bb = sum(v * v for _, v in weights)
    a, b = sum(u for u, _ in weights), sum(v for _, v in weights)
    determinant = aa * bb - ab * ab
    offset = (a * bb - b * ab) / determinant
    slope = (b * aa - a * ab) / determinant
    return (offset, slope) if offset >= 0 else (0.0, b / bb)


def gpu_generation(
    population: int, gpus: int, dimensions: int, bytes_per_parameter: float
) -> dict[str, float]:
    """Return the modelled seconds of the parts of a generation at the blog's shape.

    Args:
        population: candidates, one agent each.
        gpus: devices; each trains the same number of agents, at the published rate.
        dimensions: parameters of a candidate.
        bytes_per_parameter: that a generation of the outer loop reads and writes, for each
            parameter of the population.
    """
    agents = -(-population // gpus)
    received = 4 * (1 + BLOG["metrics"]) * agents * gpus
    steps = math.ceil(math.log2(gpus)) if gpus > 1 else 0
    return {
        "training": agents * BLOG["frames"] / GPU["frames"],
        "outer": bytes_per_parameter * population * dimensions / GPU["bandwidth"],
        "gather": steps * NETWORK["latency"] + (gpus > 1) * received / NETWORK["bandwidth"],
    }


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Outer loop and training on 1, 2 and 4 host devices; a model of up to 1,000 GPUs."""
    loops = _outer_loops(options.repeats)
    trained = _trainings(options.repeats)
    # The model is fitted to one device and held against the others.
    alone = [row for row in loops if row["num_devices"] == 1]
    size = [row["rows"] * row["dimensions"] for row in alone]
    constants = {
        name: fit([(x, row[key]) for x, row in zip(size, alone, strict=True)])
        for name, key in (
            ("seconds", "median"),
            ("traffic", "accessed_bytes"),
            ("memory", "program_bytes"),
        )
    }
    (offset, slope), (_, traffic), (_, memory) = constants.values()
    print(f"\nOne device: {1e3 * offset:.2g} ms + {1e9 * slope:.3g} ns for each parameter of the "
          f"population; {traffic:.3g} bytes read or written and {memory:.3g} bytes of memory for "
          "each.")  # fmt: skip
    for count in DEVICES:
        ratios = [
            row["median"] / (offset + slope * row["rows"] * row["dimensions"])
            for row in loops
            if row["num_devices"] == count
        ]
        print(f"Measured / model, {count} devices: {min(ratios):.2f} to {max(ratios):.2f}")
    gpus = _extrapolate(max(row["dimensions"] for row in loops), traffic, memory)
    return {"rows": loops, "training": trained, "constants": constants, "gpus": gpus}


def _outer_loops(repeats: int) -> list[dict[str, Any]]:
    table = Table(
        "devices", "population", "parameters", "CPU ms a device: median [min, max]",
        "gathered bytes", "memory a device, MB", "state, kB", "checkpoint, kB",
    )  # fmt: skip
    rows = []
    for num_devices in DEVICES:
        name = f"outer loop on {num_devices} devices"
        progress(f"{name} compiles")
        with Worker(name, own("outer_loops", num_devices=num_devices)) as worker:
            results = [worker.measure() for _ in range(repeats)]
        progress("")
        for population, hidden in SHAPES:
            shape = f"{population} {hidden}"
            seconds = spread(each[shape] for each in results)
            row = {"num_devices": num_devices, **seconds, **worker.about[shape]}
            rows.append(row)
            milliseconds = {key: 1e3 * value for key, value in seconds.items()}
            table.row(
                num_devices, f"{population:,}", f"{row['dimensions']:,}", interval(milliseconds),
                f"{row['gathered_bytes']:,}", number(row["program_bytes"] / 1e6),
                number(row["state_bytes"] / 1e3), number(row["saved_bytes"] / 1e3),
            )  # fmt: skip
    return rows


def _trainings(repeats: int) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        workers = {}
        for count in DEVICES:
            progress(f"training on {count} devices compiles")
            variant = own("scaling_training", num_devices=count)
            workers[str(count)] = stack.enter_context(Worker(f"{count} devices", variant))
        results = measure_all(workers, repeats)
        abouts = {name: worker.about for name, worker in workers.items()}
    table = Table(
        "devices", "frames/s: median [min, max]", "frames per CPU second",
        "gathered bytes", "memory a device, MB",
    )  # fmt: skip
    rows = []
    for name, about in abouts.items():
        rates = spread(each["frames"] / each["seconds"] for each in results[name])
        per_cpu = spread(each["frames"] / each["cpu_seconds"] / int(name) for each in results[name])
        rows.append({"num_devices": int(name), **rates, "per_cpu_second": per_cpu, **about})
        memory = number(about["program_bytes"] / 1e6)
        gathered = f"{about['gathered_bytes']:,}"
        table.row(name, interval(rates), interval(per_cpu), gathered, memory)
    return rows


def _extrapolate(dimensions: int, traffic: float, memory: float) -> list[dict[str, Any]]:
    print(f"\nExtrapolated to A40s: {dimensions:,} parameters, {BLOG['frames']:,} frames an agent.")
    table = Table(
        "population", "GPUs", "training, s", "outer loop, s", "gathering, s",
        "share beside training", "of 48 GB",
    )  # fmt: skip
    rows = []
    for population in (1_000, 10_000, 100_000, 1_000_000):
        for gpus in (1, 8, 64, 1_000):
            parts = gpu_generation(population, gpus, dimensions, traffic)
            used = memory * population * dimensions / GPU["memory"]
            share = 1 - parts["training"] / sum(parts.values())
            rows.append({"population": population, "gpus": gpus, **parts, "memory": used})
            table.row(
                f"{population:,}", f"{gpus:,}", *(number(part, 2) for part in parts.values()),
                f"{share:.1%}", f"{used:.0%}{', does not fit' if used > 1 else ''}",
            )  # fmt: skip
    frames = BLOG["candidates"] * BLOG["frames"] * BLOG["generations"]
    hours = frames / GPU["frames"] / 3600
    print(f"\nA run of the blog's size: {frames:.3g} frames, {hours:.1f} hours of one GPU.")
    return rows
