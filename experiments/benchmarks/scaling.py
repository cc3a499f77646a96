"""The suite `devices`: the same training on 1, 2, 4 and 8 devices, weak and strong scaling.

On a CPU the devices are forced: more than there are cores only show what the program's own overhead
is. Such rows are marked.
"""

import argparse
from contextlib import ExitStack
from typing import Any

from experiments.benchmarks.comparison import Table, interval, neighbours, number
from experiments.benchmarks.machine import cores
from experiments.benchmarks.processes import Worker, measure_all, own, progress, spread
from experiments.benchmarks.tasks import WORK

DEVICES = (1, 2, 4, 8)
AGENTS_EACH, AGENTS = 32, 256
"""of a device in weak scaling, and of all in strong scaling"""
UPDATES = 8
TASK = "ppo", "CartPole-v1"


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """PPO on CartPole-v1 on 1 to 8 devices: weak and strong scaling."""
    weak, strong = options.agents[:2] if len(options.agents) > 1 else (AGENTS_EACH, AGENTS)
    kinds = {
        "weak": {count: weak * count for count in DEVICES},
        "strong": {count: max(strong, count) for count in DEVICES},
    }
    table = Table(
        "scaling", "devices", "agents", "steps/s: median [min, max]", "per CPU second",
        "faster than on one: median [min, max]", "efficiency", "peak MiB", "layout",
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    for kind, sizes in kinds.items():
        rows += _measure(kind, sizes, options, table)
    return {"rows": rows, "cores": cores()}


def _measure(
    kind: str, sizes: dict[int, int], options: argparse.Namespace, table: Table
) -> list[dict[str, Any]]:
    batch = WORK[TASK].frames_per_update
    learner, task = TASK
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        workers, amounts = {}, {}
        for count, agents in sizes.items():
            progress(f"{kind} scaling, {count} devices: compiling")
            updates = max(2, options.frames // (agents * batch)) if options.frames else UPDATES
            name = f"{kind}, {count} devices"
            variant = own(
                "ours", learner=learner, task=task, agents=agents, updates=updates,
                num_devices=count, default_flags=True,
            )  # fmt: skip
            worker = stack.enter_context(Worker(name, variant))
            if worker.about["devices"] < count:
                progress(f"{name}: there are {worker.about['devices']}, left out")
                continue
            workers[name], amounts[name] = worker, agents * updates * batch
        results = measure_all(workers, options.repeats)
        abouts = [worker.about for worker in workers.values()]
    first: list[float] = []
    for (name, measured), about in zip(results.items(), abouts, strict=True):
        rates = [amounts[name] / each["seconds"] for each in measured]
        per_cpu = spread(amounts[name] / each["cpu_seconds"] for each in measured)["median"]
        first = first or rates
        faster, count = neighbours(rates, first), about["devices"]
        row = {
            "scaling": kind, "devices": count, "agents": sizes[count], **spread(rates), **about,
            "rates": rates, "per_cpu_second": per_cpu, "faster": faster,
            "efficiency": faster["median"] / count,
            "peak_bytes": max(each["peak_bytes"] for each in measured),
            "forced_beyond_cores": about["platform"] == "cpu" and count > cores(),
        }  # fmt: skip
        rows.append(row)
        beyond = " (more devices than cores)" if row["forced_beyond_cores"] else ""
        table.row(
            kind, count, sizes[count], interval(row), number(per_cpu), interval(faster),
            f"{row['efficiency']:.0%}{beyond}", number(row["peak_bytes"] / 2**20, 4),
            about["layout"],
        )  # fmt: skip
    return rows
