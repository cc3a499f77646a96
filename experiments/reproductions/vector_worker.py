"""A process that only steps Gymnasium's vector environments and says how long it took.

Its jobs are lines of JSON on stdin, its answers on stdout. It is a process of its own because
AsyncVectorEnv forks, which a process whose JAX is at work must not.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from experiments.reproductions.gym_envs import make_vector


def measure(env: str, num_envs: int, kind: Any, max_frames: int, max_seconds: float) -> dict:
    """Step with random actions until either limit is reached; the first steps do not count."""
    # Children are forked: starting hundreds of interpreters would take longer than all the rest.
    vector = make_vector(env, num_envs, kind, context="fork" if kind == "async" else None)
    try:
        vector.reset(seed=0)
        count = int(vector.single_action_space.n)  # type: ignore[attr-defined]
        actions = np.random.default_rng(0).integers(count, size=(128, num_envs))
        for _ in range(2):
            vector.step(actions[0])
        steps, began = 0, time.perf_counter()
        while True:
            vector.step(actions[steps % len(actions)])
            steps += 1
            seconds = time.perf_counter() - began
            if steps * num_envs >= max_frames or seconds >= max_seconds:
                return {"frames": steps * num_envs, "steps": steps, "seconds": seconds}
    finally:
        vector.close()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of forking while JAX is loaded: the children do not use it
    for line in sys.stdin:
        print(json.dumps(measure(**json.loads(line))), flush=True)
