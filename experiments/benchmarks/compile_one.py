"""Compile one program and say how long that took: `python compile_one.py PROGRAM FOLDER`.

A script of its own that uses what has been there since the first version, so that it also runs with
another commit's packages on PYTHONPATH. FOLDER holds that commit's configs. Prints a line of JSON.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any


def quick(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    """A block of generations of PPO's preset."""
    import numpy as np

    from metaevo.config import from_dict, load_yaml
    from metaevo.evolution.evolution import Evolution
    from metaevo.studies.learner import LearnerStudy
    from metaevo.studies.settings import experiment_class

    presets = folder / "configs" / "evolve_value_loss"
    names = "ppo.yaml", "quick.yaml"  # the second one in the first versions
    raw = load_yaml(next(presets / name for name in names if (presets / name).is_file()))
    settings: Any = from_dict(experiment_class(raw, "value_loss"), raw)
    problem = LearnerStudy(settings).problem({})
    evolution = Evolution(problem, settings.strategy, settings.evolution, seed=0)
    state = evolution.init()
    more = (evolution.traced,) if hasattr(evolution, "traced") else ()
    return evolution._run, (state, np.int32(1), *more)


def _training(learner: str, name: str, **observations: Any) -> tuple[Any, tuple[Any, ...]]:
    """One agent from scratch."""
    import importlib

    import jax

    from purerl import envs

    module = importlib.import_module(f"purerl.{learner}")
    env, env_params = envs.make(name, **observations)
    train = module.make_train(module.Config(100_000), env)
    return jax.jit(train), (jax.random.key(0), module.Hyperparams(), None, env_params)


PROGRAMS = {
    "quick": quick,
    "ppo": lambda _: _training("ppo", "CartPole-v1"),
    "dqn": lambda _: _training("dqn", "CartPole-v1"),
    "q-learning": lambda _: _training("q_learning", "GridWorld", observations="index"),
}


def main() -> None:
    """Set up the devices, trace, compile, and say how long each took."""
    program, folder = PROGRAMS[sys.argv[1]], Path(sys.argv[2])
    from metaevo.evolution import devices

    devices.setup()
    import jax

    events: list[str] = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    function, arguments = program(folder)
    events.clear()
    start, cpu = time.perf_counter(), time.process_time()
    lowered = function.lower(*arguments)
    middle = time.perf_counter()
    lowered.compile()
    end = time.perf_counter()
    usage = {
        "trace_seconds": middle - start,
        "compile_seconds": end - middle,
        "seconds": end - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "cache_hits": events.count("/jax/compilation_cache/cache_hits"),
        "package": os.path.dirname(devices.__file__),
    }
    print(json.dumps(usage), flush=True)


if __name__ == "__main__":
    main()
