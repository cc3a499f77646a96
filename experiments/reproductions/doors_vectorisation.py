"""What it costs to step many environments at once: Gymnasium's vectors against `jax.vmap`."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt
from tqdm import tqdm

from experiments.reproductions.comparison import Comparison, Output, require
from experiments.reproductions.figures import plot_lines
from metaevo.config import ConfigError
from metaevo.evolution import devices
from purerl import envs

Count = Annotated[int, Gt(0)]
WORKER = Path(__file__).with_name("vector_worker.py")


@dataclass(frozen=True)
class Settings:
    """How much of everything."""

    num_envs: tuple[Count, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    """the numbers of Doors that are stepped at once"""
    max_async: Annotated[int, Ge(0)] = 500
    """at most so many processes for AsyncVectorEnv; 0 leaves it out"""
    point_seconds: Annotated[float, Gt(0)] = 1.0
    """measuring time of a point"""
    frames: Count = 1_000_000
    """environment steps of the second table"""
    gym_envs: Count = 10
    """environments at once in Gymnasium, second table"""
    jax_envs: Count = 2000
    """environments at once in JAX, second table"""
    gym_seconds: Annotated[float, Gt(0)] = 120.0
    """what takes Gymnasium longer is stopped there and extrapolated"""
    minatar: bool = True
    """measure Breakout-MinAtar in the minatar package too"""


class Stepper:
    """Steps environments with random actions, from Python or in a compiled loop."""

    def __init__(self, name: str, num_envs: int, observations: Any = "flat"):
        env, params = envs.make(name, observations=observations)
        count = int(env.action_space(params).n)

        def step(carry):
            key, obs, state, total = carry
            del obs
            key, action_key, env_key = jax.random.split(key, 3)
            action = jax.random.randint(action_key, (num_envs,), 0, count)
            keys = jax.random.split(env_key, num_envs)
            obs, state, reward, _, _, _ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
                keys, state, action, params
            )
            return key, obs, state, total + jnp.sum(reward)

        def start(key):
            reset_key, key = jax.random.split(key)
            keys = jax.random.split(reset_key, num_envs)
            obs, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
            return key, obs, state, jnp.float32(0.0)

        self.start, self.step = start, step
        # Observations are carried along, so that they are computed at every step.
        self.loop = lambda carry, steps: jax.lax.fori_loop(0, steps, lambda _, c: step(c), carry)


def from_python(name: str, num_envs: int, seconds: float) -> float:
    """Return the seconds of one compiled step that Python calls and waits for."""
    stepper = Stepper(name, num_envs)
    step = jax.jit(stepper.step)
    carry = jax.block_until_ready(step(jax.jit(stepper.start)(jax.random.key(0))))
    steps, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds or not steps:
        carry = jax.block_until_ready(step(carry))
        steps += 1
    return passed / steps


def in_loop(name: str, num_envs: int, seconds: float) -> float:
    """Return the seconds of one step inside a compiled loop, on one device."""
    stepper = Stepper(name, num_envs)
    loop = jax.jit(stepper.loop)
    carry = jax.jit(stepper.start)(jax.random.key(0))
    steps = 64
    jax.block_until_ready(loop(carry, steps))
    while True:
        began = time.perf_counter()
        carry = jax.block_until_ready(loop(carry, steps))
        passed = time.perf_counter() - began
        if passed >= seconds:
            return passed / steps
        steps = int(steps * min(16.0, max(1.3, 1.2 * seconds / passed)))


def all_frames(name: str, num_envs: int, frames: int) -> tuple[float, int]:
    """Step environments on all devices until there are so many frames.

    Returns:
        seconds without compilation, and the frames.
    """
    count = min(len(jax.devices()), num_envs)
    per_device = -(-num_envs // count)
    stepper = Stepper(name, per_device)
    start = devices.spread(stepper.start, num_devices=count)
    loop = devices.spread(stepper.loop, in_axes=(0, None), num_devices=count)
    carry = start(devices.place(jax.random.split(jax.random.key(0), count), count))
    steps = -(-frames // (per_device * count))
    carry = jax.block_until_ready(loop(carry, jnp.int32(1)))
    began = time.perf_counter()
    jax.block_until_ready(loop(carry, jnp.int32(steps)))
    return time.perf_counter() - began, steps * per_device * count


@contextmanager
def vector_worker() -> Iterator[Any]:
    """A process for Gymnasium's environments; yields a function from a job to its answer."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}  # it imports JAX without using it
    process = subprocess.Popen(
        [sys.executable, str(WORKER)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def ask(**job: Any) -> dict[str, float]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"stepping {job} ended with code {process.wait()}")
        return json.loads(line)

    try:
        yield ask
    finally:
        process.kill()
        process.communicate()


KINDS = {"sync": "NumPy, SyncVectorEnv", "async": "NumPy, AsyncVectorEnv"}
FROM_PYTHON, IN_LOOP = "vmap, called from Python", "vmap, in a compiled loop"


def run(settings: Settings, output: Output) -> None:
    """Measure the step times of Doors, then the seconds of a million frames."""
    with vector_worker() as ask:
        _step_times(settings, output, ask)
        _million_frames(settings, output, ask)


def _step_times(settings: Settings, output: Output, ask: Any) -> None:
    names = [*KINDS.values(), FROM_PYTHON, IN_LOOP]
    times: dict[str, list[float]] = {name: [] for name in names}
    seconds = settings.point_seconds
    with tqdm(total=len(names) * len(settings.num_envs), leave=False, unit="point") as bar:
        for count in settings.num_envs:
            for name in names:
                bar.set_description(f"{count} Doors, {name}")
                kind = next((key for key, value in KINDS.items() if value == name), None)
                if kind == "async" and count > settings.max_async:
                    result = float("nan")
                elif kind is not None:
                    answer = ask(env="Doors", num_envs=count, kind=kind,
                                 max_frames=10**9, max_seconds=seconds)  # fmt: skip
                    result = answer["seconds"] / answer["steps"]
                else:
                    measure = from_python if name == FROM_PYTHON else in_loop
                    result = measure("Doors", count, seconds)
                times[name].append(1e6 * result)
                bar.update()
    rows = [
        [str(count), *(times[name][index] for name in names)]
        for index, count in enumerate(settings.num_envs)
    ]
    columns = ["Doors at once", *(f"{name}, µs a step of all" for name in names)]
    output.table("step_times", columns, rows)
    plot_lines(
        {name: (settings.num_envs, times[name]) for name in names},
        output.figure("step_times"),
        title="Stepping Doors",
        xlabel="environments",
        ylabel="microseconds a step of all",
        log="both",
    )


def _million_frames(settings: Settings, output: Output, ask: Any) -> None:
    published = {"CartPole-v1": ("46", "0.05"), "Breakout-MinAtar": ("50", "0.2")}
    rows: list[Sequence[Any]] = []
    for name in published:
        gym = f"Gymnasium, {settings.gym_envs} environments"
        if name == "Breakout-MinAtar":
            gym = f"minatar in Gymnasium, {settings.gym_envs} environments"
        seconds = float("nan")
        if settings.minatar or name != "Breakout-MinAtar":
            with tqdm(desc=f"{name}, {gym}", total=1, leave=False, unit="measurement"):
                answer = ask(
                    env=name,
                    num_envs=settings.gym_envs,
                    kind="sync",
                    max_frames=settings.frames,
                    max_seconds=settings.gym_seconds,
                )
            seconds = answer["seconds"] * settings.frames / answer["frames"]
            if answer["frames"] < settings.frames:
                gym += f" (extrapolated from {answer['frames']:,.0f} frames)"
            rows.append([name, gym, seconds, settings.frames / seconds, "", published[name][0]])
        measured, frames = all_frames(name, settings.jax_envs, settings.frames)
        ours = measured * settings.frames / frames
        ratio = f"{seconds / ours:.3g}x" if seconds == seconds else ""
        variant = f"JAX, {settings.jax_envs} environments"
        rows.append([name, variant, ours, settings.frames / ours, ratio, published[name][1]])
    output.table(
        "frames",
        ["environment", "variant", f"seconds for {settings.frames:,} frames", "frames/s",
         "against Gymnasium", "published seconds (A100)"],
        rows,
    )  # fmt: skip


def check(settings: Settings) -> None:
    """Find out what is missing."""
    if settings.minatar:
        require("minatar", unless="--minatar false")
    if not settings.num_envs:
        raise ConfigError("num_envs must name at least one number")


COMPARISON = Comparison(
    title="Stepping many environments",
    published="vmapped environments are stepped in almost constant time up to hundreds of them, "
    "NumPy's in linear time; a million frames take 46 s (CartPole-v1) and 50 s (Breakout-MinAtar) "
    "with 10 environments in Gymnasium, 0.05 s and 0.2 s with 2,000 in JAX on an A100.",
    settings=Settings,
    quick={
        "num_envs": [1, 10, 100],
        "max_async": 10,
        "point_seconds": 0.2,
        "gym_seconds": 5.0,
    },
    check=check,
    run=run,
)
