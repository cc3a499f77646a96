"""Worker process: compile, then measure once for every line of input; see `processes`."""

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks.processes import Argument, Sample

Measure = Callable[[int], Sample]
"""`(number of the repetition) -> sample`."""
Made = tuple[Measure, dict[str, Any]]
"""Result of a worker's function: the measurement, and a description of the worker."""


class Clock:
    """Seconds since its creation."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def sample(self, amount: float) -> Sample:
        """Return the sample of a measurement that ends now, of an amount of work."""
        seconds, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": amount}


def timed(
    compiled: Callable[[Any], Any], make_input: Callable[[int], Any], amount: float
) -> Measure:
    """Return a function that measures one call on a fresh input."""
    import jax

    def measure(repeat: int) -> Sample:
        argument = jax.block_until_ready(make_input(repeat))
        clock = Clock()
        jax.block_until_ready(compiled(argument))
        return clock.sample(amount)

    return measure


def layout(num_devices: int, chunk_size: int) -> str:
    """Describe how agents are spread over the devices."""
    return f"{num_devices} device{'s' * (num_devices > 1)}, chunks of {chunk_size}"


def work(name: str, arguments: dict[str, Argument]) -> None:
    """Answer in lines of JSON on standard output, with the function `module:function`."""
    import jax

    seconds = [0.0]

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seconds[0] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    module, _, function = name.partition(":")
    make = getattr(importlib.import_module(f"experiments.benchmarks.{module}"), function)
    measure, about = make(**arguments)
    if "skip" not in about:
        measure(0)
        about |= {"compile_seconds": seconds[0], "platform": jax.devices()[0].platform}
    print(json.dumps(about), flush=True)
    for repeat, _ in enumerate(sys.stdin, start=1):
        print(json.dumps({**measure(repeat), "peak_bytes": _peak_bytes()}), flush=True)


def _peak_bytes() -> int:
    """Return the peak memory so far, of the accelerators or of this process."""
    import jax

    if jax.devices()[0].platform != "cpu":
        return sum((device.memory_stats() or {})["peak_bytes_in_use"] for device in jax.devices())
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
