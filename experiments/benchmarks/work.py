"""A worker of ours: compile, then measure once for every line on stdin; see `processes`."""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks import (
    environments,
    evolution,
    flops,
    games,
    peers,
    robots,
    sweeps,
    tabular,
    training,
)

Measure = Callable[[int], dict[str, float]]
WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    **training.WORKERS,
    **peers.WORKERS,
    **tabular.WORKERS,
    **environments.WORKERS,
    **evolution.WORKERS,
    **sweeps.WORKERS,
    **flops.WORKERS,
    **games.WORKERS,
    **robots.WORKERS,
}


def work(name: str, arguments: dict[str, Any]) -> None:
    """Answer in lines of JSON on stdout."""
    import jax

    seconds = [0.0]

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seconds[0] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    measure, about = WORKERS[name](**arguments)
    if "skip" in about:
        print(json.dumps(about), flush=True)
        return
    start = time.perf_counter()
    measure(0)
    first = time.perf_counter() - start
    about |= {"first_seconds": first, "compile_seconds": seconds[0]}
    about |= {"platform": jax.devices()[0].platform, "device": jax.devices()[0].device_kind}
    print(json.dumps(about), flush=True)
    for repeat, _ in enumerate(sys.stdin, start=1):
        print(json.dumps({**measure(repeat), "peak_bytes": _peak_bytes()}), flush=True)


def _peak_bytes() -> int:
    """Return the largest memory so far: of the accelerators, or of this process."""
    import jax

    statistics = [device.memory_stats() or {} for device in jax.devices()]
    peaks = [each["peak_bytes_in_use"] for each in statistics if "peak_bytes_in_use" in each]
    if peaks and jax.devices()[0].platform != "cpu":
        return sum(peaks)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
