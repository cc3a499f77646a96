"""A process that sweeps, and prints its memory after some trials: for test_sweep_slow.py.

python sweep_memory.py KIB COUNT,COUNT ARGUMENTS...     # every trial leaks so many KiB on purpose
"""

import json
import sys
import time
from pathlib import Path

from metaevo.evolution import devices

devices.setup()  # before anything starts JAX

from metaevo.commands.sweep import main  # noqa: E402
from metaevo.training.sweeps import Trainings  # noqa: E402
from metaevo.tuning.study import Study  # noqa: E402

PAGE = 4096


def resident() -> float:
    """Return the MiB of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def measure(kib: int, counts: list[int], arguments: list[str]) -> dict[str, object]:
    """Sweep, and return the memory after so many trials, and the seconds of search and training."""
    tell, train = Study.tell, Trainings.run
    leaked, memory, told, seconds = [], {}, [], []

    def counted(*args, **kwargs):
        leaked.append(b"x" * (kib * 1024))
        result = tell(*args, **kwargs)
        told.append(time.monotonic())
        if len(told) in counts:
            memory[len(told)] = resident()
        return result

    def timed(*args, **kwargs):
        before = time.monotonic()
        result = train(*args, **kwargs)
        seconds.append(time.monotonic() - before)
        return result

    Study.tell, Trainings.run = counted, timed
    code = main(arguments, description=None)
    search = told[-1] - told[0]
    return {"code": code, "memory": memory, "search": search, "training": sum(seconds[1:])}


if __name__ == "__main__":
    found = measure(int(sys.argv[1]), [int(each) for each in sys.argv[2].split(",")], sys.argv[3:])
    print(json.dumps(found))
