"""Measure the two ends of every task's scale: random play and tuned PPO."""

from collections.abc import Callable
from pathlib import Path

from metaevo import statistics
from metaevo.comparison.cache import cached_in
from metaevo.comparison.generality.measure import Bench, best_of, key_of, rates_of
from metaevo.comparison.generality.rules import rule_of
from metaevo.comparison.generality.tasks import Benchmark, Reference
from metaevo.config import ConfigError, files
from metaevo.config.plain import PlainDict
from metaevo.evolution.seeding import Purpose
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import commit

COMMAND = "metaevo generality --references metaevo/comparison/generality/references.json"
PPO = "adam"
"""PPO's default rule."""


def measure_references(
    benchmark: Benchmark, folder: Path, save: Path, check_stop: Callable[[], None]
) -> None:
    """Measure both ends on every task, and write them to a file.

    Finished tasks are kept in a folder, so that an interrupted measurement continues.

    Raises:
        ConfigError: if PPO is no better than random play on a task, which leaves no scale.
    """
    rule = rule_of(PPO)
    rates = rates_of(benchmark, rule, None)
    tasks: PlainDict = {}
    with Progress(total=len(benchmark.tasks), desc="references", unit="task") as bar:
        for name in benchmark.tasks:
            bar.stage(name)
            check_stop()

            def work(name: str = name) -> PlainDict:
                bench = Bench(benchmark, name, rule)
                tuned = bench.tune(rates, lambda frames: check_stop())
                best = best_of(rates, tuned)
                ends = {"random": bench.random(), "tuned": bench.score(best, Purpose.NORMALISATION)}
                scores = statistics.fill_missing(ends)
                return {"learning_rates": rates, "learning_rate": best, "tuning": tuned, **scores}

            file, key = folder / "tasks" / f"{name}.json", key_of(benchmark, name)
            tasks[name] = cached_in(file, Reference, key, work)
            bar.update(1)
    flat = [name for name, each in tasks.items() if not _has_scale(each)]
    if flat:
        raise ConfigError(f"PPO is no better than random play on {', '.join(flat)}: no scale")
    about = {"version": benchmark.version, "command": COMMAND, "commit": commit()}
    files.write_json_atomic(save, {**about, "tasks": tasks})
    print(f"references: {save}")


def _has_scale(kept: PlainDict) -> bool:
    """Return whether PPO scores significantly more than random play."""
    return statistics.compare(kept["tuned"], kept["random"]).conclusion == "better"
