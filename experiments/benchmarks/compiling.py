"""The suite `compile`: how long tracing and compiling take, cold, cached, and in another commit."""

import argparse
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from experiments.benchmarks.commits import files_of, run_with
from experiments.benchmarks.comparison import Table, interval, neighbours, number, with_aim
from experiments.benchmarks.machine import ROOT
from experiments.benchmarks.processes import progress, spread

PROGRAMS = {
    "quick": "a block of the quick preset's generations",
    "ppo": "one PPO agent, CartPole-v1",
    "dqn": "one DQN agent, CartPole-v1",
    "q-learning": "one Q-learning agent, GridWorld",
}
SCRIPT = Path(__file__).resolve().parent / "compile_one.py"
COLD, CACHED = "cold", "cached"
AIM = {"quick": 1 / 0.6}
"""How much faster than another commit ours should compile: in no more than 60% of its time."""


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds to trace and compile: cold, from JAX's persistent cache, and of another commit."""
    variants = [COLD, CACHED, *([options.against] if options.against else [])]
    results: dict[tuple[str, str], list[dict[str, Any]]] = {
        (program, variant): [] for program in options.programs for variant in variants
    }
    with files_of(options.against) if options.against else nullcontext(ROOT) as other:
        for repeat in range(options.repeats):
            for program in options.programs:
                with tempfile.TemporaryDirectory() as cache:  # the cold one fills it
                    for variant in variants:
                        folder = other if variant == options.against else ROOT
                        result = _compile(program, folder, cache if folder is ROOT else None)
                        results[program, variant].append(result)
                        text = f"{program}, {variant}, {repeat + 1} of {options.repeats}"
                        progress(f"{text}: {result['seconds']:.1f} s")
    progress("")
    for program in options.programs:
        print(f"{program}: {PROGRAMS[program]}")
    table = Table(
        "program", "variant", "trace, s", "compile, s", "together: median [min, max]", "CPU s",
        "cold is faster: median [min, max]", "in CPU s", "peak MiB",
    )  # fmt: skip
    rows = []
    for (program, variant), measured in results.items():
        row: dict[str, Any] = {"program": program, "variant": variant, "measured": measured}
        for name in ("trace_seconds", "compile_seconds", "seconds", "cpu_seconds"):
            row[name] = spread(each[name] for each in measured)
        row["peak_bytes"] = max(each["peak_bytes"] for each in measured)
        faster = in_cpu = ""
        if variant != COLD:
            row["cold_is_faster"] = _ratio(results[program, COLD], measured, "seconds")
            row["in_cpu_seconds"] = _ratio(results[program, COLD], measured, "cpu_seconds")
            aim = AIM.get(program) if variant == options.against else None
            faster = interval(row["cold_is_faster"])
            faster = with_aim(faster, row["cold_is_faster"]["median"], aim)
            in_cpu = interval(row["in_cpu_seconds"])
            if variant == CACHED and not all(each["cache_hits"] for each in measured):
                faster = "not in the cache: JAX stores what takes a second to compile"
        rows.append(row)
        table.row(
            program, variant, number(row["trace_seconds"]["median"]),
            number(row["compile_seconds"]["median"]), interval(row["seconds"]),
            number(row["cpu_seconds"]["median"]), faster, in_cpu,
            number(row["peak_bytes"] / 2**20, 4),
        )  # fmt: skip
    return {"rows": rows}


def _ratio(cold: list[dict[str, Any]], measured: list[dict[str, Any]], name: str) -> Any:
    return neighbours([each[name] for each in measured], [each[name] for each in cold])


def _compile(program: str, folder: Path, cache: str | None) -> dict[str, Any]:
    """Compile with the packages in a folder, and with a cache or without."""
    if cache is None:
        environment = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    else:
        environment = {"JAX_COMPILATION_CACHE_DIR": cache}
    return run_with(folder, SCRIPT, program, str(folder), environment=environment)
