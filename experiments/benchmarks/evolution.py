"""The suite `evolution`: value-loss evolution at three shapes, and what all but training costs."""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import OURS, Comparison, Table, interval, number
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import Worker, measure_all, own, progress, spread

Measure = Callable[[int], dict[str, float]]
CONFIGS = Path(__file__).resolve().parent.parent.parent / "configs" / "evolve_value_loss"
SHAPES = ("ppo", "standard", "blog")
BLOCK = 64
"""generations of a block that costs nothing but ask and tell"""
RECORDS, SAVES = 64, 5
"""of one measurement of what is written"""
PEER_AIM = 3.0
"""How much faster than a peer ours should be at the blog's shape."""


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Value-loss evolution: frames a second, and what all but training costs."""
    comparison = Comparison("frames", "shape", "agents", "generations")
    for shape in options.shape:
        _compare(shape, options, comparison)
    table = Table("shape", "what", "ms a generation: median [min, max]", "of a generation")
    costs: list[dict[str, Any]] = []
    for row in comparison.rows:
        if row["variant"] == OURS:
            costs += _costs(row, options.repeats, table)
    return {"rows": comparison.rows, "failures": comparison.failures, "costs": costs}


def _compare(shape: str, options: argparse.Namespace, comparison: Comparison) -> None:
    """Measure evolution at one shape, and the peers that have it."""
    asked = {"population": options.population, "agent_steps": options.agent_steps}
    with Worker(shape, own("evolution_size", shape=shape, **asked)) as worker:
        size = worker.about
    if size["reduced"]:
        progress(f"{shape}: {size['reduced']}")
    # A generation of the larger shapes takes long enough.
    generations = options.generations if shape == "ppo" else 1
    evolution = {name: size[name] for name in ("population", "agent_steps", "validation")}
    variants = {OURS: own("evolution_block", shape=shape, generations=generations, **evolution)}
    others = externals(
        options, suite="evolution", task=shape, agents=size["agents"],
        generations=generations, agent_steps=size["agent_steps"],
    )  # fmt: skip
    variants |= {name: each for name, each in others.items() if options.keep(name)}
    aim = dict.fromkeys(others, PEER_AIM) if shape == "blog" else {}
    comparison.case(
        variants, 0, options.repeats, shape, size["agents"], generations,
        aims={"cpu": aim, "gpu": aim},
    )  # fmt: skip


def _costs(row: dict[str, Any], repeats: int, table: Table) -> list[dict[str, Any]]:
    """Measure and print what costs how many milliseconds of a generation."""
    evolution = {name: row[name] for name in ("shape", "population", "agent_steps", "validation")}
    variants = {
        "ask and tell": own("evolution_block", generations=BLOCK, training=False, **evolution),
        "ask, tell and host": own("evolution_block", generations=1, training=False, **evolution),
        "files": own("evolution_files", **evolution),
    }
    with ExitStack() as stack:
        workers = {}
        for name, variant in variants.items():
            progress(f"{row['shape']}: {name} compiles")
            workers[name] = stack.enter_context(Worker(name, variant))
        results = measure_all(workers, repeats)
        every = workers["files"].about["checkpoint_every"]
    generation = 1e3 * row["seconds"] / row["generations"]
    names = {
        "training, ask and tell": [generation],
        "ask and tell": [1e3 * each["seconds"] / BLOCK for each in results["ask and tell"]],
        "ask and tell, a block each": [
            1e3 * each["seconds"] for each in results["ask, tell and host"]
        ],
        "a line of metrics": [1e3 * each["log_seconds"] for each in results["files"]],
        f"a checkpoint every {every}": [
            1e3 * each["save_seconds"] / every for each in results["files"]
        ],
    }
    rows = []
    for name, milliseconds in names.items():
        cost = {"shape": row["shape"], "what": name, **spread(milliseconds)}
        cost["share"] = cost["median"] / generation
        rows.append(cost)
        table.row(row["shape"], name, interval(cost), f"{number(100 * cost['share'])}%")
    return rows


# --- What runs in the processes -------------------------------------------------------------------


def _settings(shape: str, population: int | None, agent_steps: int | None) -> Any:
    from metaevo.config import from_dict, load_yaml
    from metaevo.studies.settings import experiment_class

    raw = load_yaml(CONFIGS / f"{shape}.yaml")
    if population is not None:
        raw["strategy"]["population_size"] = population
    if agent_steps is not None:
        raw["train"]["total_timesteps"] = agent_steps
    return from_dict(experiment_class(raw, "value_loss"), raw)


def _evolution(settings: Any, training: bool, validation: bool = True) -> Any:
    """An evolution of these settings; without training, a candidate's evaluation is one sum."""
    import dataclasses

    import jax
    import jax.numpy as jnp

    from metaevo.evolution.evolution import Evolution
    from metaevo.evolution.problem import Evaluation
    from metaevo.studies.learner import LearnerStudy

    trained = LearnerStudy(settings).problem({})

    class Quadratic:
        """A problem of the same size whose evaluation is one sum."""

        def init(self, key):
            return trained.init(key)

        def evaluate(self, key, meta_params):
            squares = jax.tree.map(lambda leaf: jnp.sum(jnp.square(leaf)), meta_params)
            return Evaluation(-jnp.sum(jnp.stack(jax.tree.leaves(squares))), {})

    problem: Any = trained if training else Quadratic()
    config = settings.evolution
    if not validation:
        config = dataclasses.replace(config, validation_seeds=0)
    return Evolution(problem, settings.strategy, config, seed=0)


def evolution_size(
    shape: str, population: int | None, agent_steps: int | None
) -> tuple[Measure, dict[str, Any]]:
    """How much of a shape is measured; on a CPU the blog's is cut to one chunk a device."""
    from metaevo.evolution import devices

    devices.setup()
    import jax

    settings = _settings(shape, population, agent_steps)
    seeds, full = settings.evolution.seeds_per_candidate, settings.strategy.population_size
    cut = shape == "blog" and population is None and jax.devices()[0].platform == "cpu"
    if cut:
        evolution = _evolution(settings, training=True)
        fitting = evolution.chunk_size * evolution.num_devices // seeds
        population = min(full, fitting - fitting % 2)
    chosen = population or full
    changes = []
    if cut or population is not None:
        changes.append(f"{chosen} candidates, and no validation of the mean")
    if agent_steps is not None:
        changes.append(f"{agent_steps:,} steps an agent")
    about = {
        "population": chosen,
        "agents": chosen * seeds,
        "agent_steps": settings.train.total_timesteps,
        "validation": not cut and population is None,
        "reduced": ", ".join(changes),
    }
    return lambda _: {"seconds": 0.0}, about


def evolution_block(
    shape: str,
    generations: int,
    population: int,
    agent_steps: int,
    validation: bool,
    training: bool = True,
) -> tuple[Measure, dict[str, Any]]:
    """Blocks of an evolution."""
    from metaevo.evolution import devices

    devices.setup()
    import jax

    from experiments.benchmarks import flops

    settings = _settings(shape, population, agent_steps)
    evolution = _evolution(settings, training, validation)
    state = evolution.init()

    def measure(repeat):
        nonlocal state
        frames = evolution.frames(int(devices.first(state.generation)))
        start, cpu = time.perf_counter(), time.process_time()
        state, _ = evolution.run_block(state, generations)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        frames = evolution.frames(int(devices.first(state.generation))) - frames
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": frames}

    about = {
        "layout": f"{evolution.num_devices} devices, chunks of {evolution.chunk_size}",
        "population": population,
        "agent_steps": agent_steps,
        "validation": validation,
    }
    if training:
        problem, key = evolution.problem, jax.random.key(0)
        meta_params = jax.eval_shape(problem.init, key)
        about["flops_per_unit"] = flops.count(problem.evaluate, key, meta_params) / problem.frames
    return measure, about


def evolution_files(
    shape: str, population: int, agent_steps: int, validation: bool
) -> tuple[Measure, dict[str, Any]]:
    """What a run writes: a line of metrics each generation, and checkpoints."""
    from metaevo.evolution import devices

    devices.setup()
    import jax

    from metaevo.runs import checkpoint
    from metaevo.runs.run_directory import RunDirectory

    settings = _settings(shape, population, agent_steps)
    evolution = _evolution(settings, training=False, validation=validation)
    state, metrics = evolution.run_block(evolution.init(), 1)
    record = {
        "frames": evolution.frames(1),
        "seconds": 1.0,
        **{name: values[0] for name, values in metrics.items()},
    }

    def measure(repeat):
        with tempfile.TemporaryDirectory() as place:
            run = RunDirectory.create(Path(place) / "run", "benchmark")
            start, cpu = time.perf_counter(), time.process_time()
            for index in range(RECORDS):
                run.append_metrics({"kind": "generation", "generation": index, **record})
            middle = time.perf_counter()
            for index in range(SAVES):
                run.sync()
                on_host = jax.device_get(devices.first(state))
                keep = settings.run.keep_checkpoints
                checkpoint.save(run.checkpoints, index, on_host, metadata={}, keep=keep)
            end, cpu = time.perf_counter(), time.process_time() - cpu
        return {
            "seconds": end - start,
            "cpu_seconds": cpu,
            "log_seconds": (middle - start) / RECORDS,
            "save_seconds": (end - middle) / SAVES,
        }

    return measure, {"checkpoint_every": settings.run.checkpoint_every}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    "evolution_size": evolution_size,
    "evolution_block": evolution_block,
    "evolution_files": evolution_files,
}
