"""What a generation costs beside training, and from that a model of many devices and candidates.

Measured here: the outer loop (ask, tell, gather) of a problem whose evaluation is one sum, which
every device repeats for the whole population, and a training evolution on 1, 2 and 4 host devices.
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

from experiments.benchmarks.processes import Worker, alternate, progress, spread
from experiments.benchmarks.training import Measure

DEVICES = (1, 2, 4)
SHAPES = ((64, 64), (512, 64), (4096, 64), (4096, 16))
"""population and units in the two hidden layers of the loss network"""
GENERATIONS = 4
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
    """Generations of all SHAPES in which a candidate costs one sum over its parameters."""
    from metaevo import devices

    devices.setup(num_devices)
    import jax
    import jax.numpy as jnp

    from metaevo.components import value_loss
    from metaevo.evolution import Evolution, EvolutionConfig
    from metaevo.problem import Evaluation
    from metaevo.strategy import StrategyConfig

    class Sum:
        """Conforms to `metaevo.problem.MetaProblem`."""

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
        return {name: each(repeat)["seconds"] for name, each in measures.items()}

    return measure, abouts


def training(num_devices: int) -> tuple[Measure, dict[str, Any]]:
    """Generations of the quick preset with a quarter of its frames."""
    from metaevo import devices

    devices.setup(num_devices)
    from metaevo.config import from_dict, load_yaml
    from metaevo.evolution import Evolution
    from metaevo.experiment import experiment_class, make_parts
    from metaevo.problems.train_learner import TrainLearner

    root = Path(__file__).resolve().parent.parent.parent
    raw = load_yaml(root / "configs/evolve_value_loss/quick.yaml")
    raw["train"]["total_timesteps"] //= 4
    raw["evolution"]["validation_seeds"] = 0
    settings: Any = from_dict(experiment_class(raw, "value_loss"), raw)
    parts = make_parts(settings)
    tasks = parts.tasks(settings, parts.component.apply)
    problem = TrainLearner(tasks, settings.hyperparams, parts.component, settings.fitness)
    return _measure(Evolution(problem, settings.strategy, settings.evolution, seed=0), 1)


def _measure(evolution: Any, generations: int) -> tuple[Measure, dict[str, Any]]:
    import jax

    from metaevo import checkpoint, devices

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
        start = time.perf_counter()
        state, _ = evolution.run_block(state, generations)
        seconds = (time.perf_counter() - start) / generations
        return {"seconds": seconds, "frames": evolution.frames(1)}

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
    loops = _outer_loops(options)
    trained = _trainings(options)
    # One device, or as many as there are cores: more of them share cores.
    alone = [row for row in loops if row["num_devices"] == 1]
    size = [row["rows"] * row["dimensions"] for row in alone]
    seconds = fit([(x, row["median"]) for x, row in zip(size, alone, strict=True)])
    traffic = fit([(x, row["accessed_bytes"]) for x, row in zip(size, alone, strict=True)])
    memory = fit([(x, row["program_bytes"]) for x, row in zip(size, alone, strict=True)])
    print(f"\nouter loop on one core: {1e3 * seconds[0]:.2f} ms + {1e9 * seconds[1]:.2f} ns for "
          f"each of the population's parameters; {traffic[1]:.0f} bytes of traffic and "
          f"{memory[1]:.1f} bytes of memory for each")  # fmt: skip
    for row in loops:
        model = seconds[0] + seconds[1] * row["rows"] * row["dimensions"]
        row["model_ratio"] = row["median"] / model
    print("measured / model: " + ", ".join(
        f"{n} devices {min(ratios):.2f} to {max(ratios):.2f}"
        for n in DEVICES
        if (ratios := [row["model_ratio"] for row in loops if row["num_devices"] == n])
    ))  # fmt: skip
    dimensions = max(row["dimensions"] for row in loops)
    table = _extrapolate(dimensions, traffic[1], memory[1])
    constants = {"seconds": seconds, "traffic": traffic, "memory": memory}
    return {"rows": loops, "training": trained, "constants": constants, "gpus": table}


def _outer_loops(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    print(f"{'devices':>7} {'population':>10} {'parameters':>10} {'ms: min':>8} {'median':>8} "
          f"{'max':>8} kB: {'gathered':>8} {'memory':>9} {'state':>7} {'saved':>7}")  # fmt: skip
    for num_devices in DEVICES:
        progress(f"outer loop on {num_devices} devices")
        with Worker("outer_loops", num_devices=num_devices) as worker:
            results = [worker.measure() for _ in range(options.repeats)]
        progress("")
        for population, hidden in SHAPES:
            name = f"{population} {hidden}"
            seconds = spread([each[name] for each in results])
            row = {"num_devices": num_devices, **seconds, **worker.about[name]}
            rows.append(row)
            gathered, memory, state, saved = (
                row[f"{each}_bytes"] / 1e3 for each in ("gathered", "program", "state", "saved")
            )
            print(f"{num_devices:7} {population:10,} {row['dimensions']:10,} "
                  f"{1e3 * row['min']:8.2f} {1e3 * row['median']:8.2f} {1e3 * row['max']:8.2f} "
                  f"{gathered:12,.1f} {memory:9,.0f} {state:7,.1f} {saved:7,.1f}",
                  flush=True)  # fmt: skip
    return rows


def _trainings(options: argparse.Namespace) -> list[dict[str, Any]]:
    rates: dict[str, list[float]] = {str(count): [] for count in DEVICES}
    with ExitStack() as stack:
        progress("training: compiling")
        workers = {
            name: stack.enter_context(Worker("scaling_training", num_devices=int(name)))
            for name in rates
        }
        for name, result in alternate(workers, options.repeats):
            rates[name].append(result["frames"] / result["seconds"])
        progress("")
        abouts = {name: worker.about for name, worker in workers.items()}
    rows = []
    print(f"\n{'devices':>7} {'frames/s: min':>13} {'median':>9} {'max':>9} {'gathered':>9} bytes "
          f"{'memory':>7} MB a device")  # fmt: skip
    for name, values in rates.items():
        row = {"num_devices": int(name), **spread(values), **abouts[name]}
        rows.append(row)
        print(f"{name:>7} {row['min']:13,.0f} {row['median']:9,.0f} {row['max']:9,.0f} "
              f"{row['gathered_bytes']:9,} {row['program_bytes'] / 1e6:13,.2f}")  # fmt: skip
    return rows


def _extrapolate(dimensions: int, traffic: float, memory: float) -> list[dict[str, Any]]:
    rows = []
    print(f"\nextrapolated to A40s, {dimensions:,} parameters, {BLOG['frames']:,} frames an agent")
    print(f"{'population':>10} {'GPUs':>5} {'training':>10} {'outer loop':>10} {'gather':>9} "
          f"{'outer share':>11} {'outer memory':>12}  (s a generation; of 48 GB)")  # fmt: skip
    for population in (1_000, 10_000, 100_000, 1_000_000):
        for gpus in (1, 8, 64, 1_000):
            parts = gpu_generation(population, gpus, dimensions, traffic)
            used = memory * population * dimensions / GPU["memory"]
            share = (parts["outer"] + parts["gather"]) / sum(parts.values())
            rows.append({"population": population, "gpus": gpus, **parts, "memory": used})
            print(f"{population:10,} {gpus:5,} {parts['training']:10,.2f} {parts['outer']:10.4f} "
                  f"{parts['gather']:9.5f} {share:11.2%} {used:12.1%}"
                  f"{'  DOES NOT FIT' if used > 1 else ''}")  # fmt: skip
    total = BLOG["candidates"] * BLOG["frames"] * BLOG["generations"]
    hours = total / GPU["frames"] / 3600
    print(f"a run of the blog's size: {total:.3g} frames, {hours:.1f} GPU hours")
    return rows
