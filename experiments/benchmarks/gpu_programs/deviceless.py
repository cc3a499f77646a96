"""Compile a function for a GPU that the machine need not have.

XLA compiles for a GPU by its description; CUDA's libraries come with `make gpu-programs`.
The description decides the kernels and which loops become CUDA graphs.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from metaevo.config import ConfigError
from purerl import fast
from purerl.types import PyTree

TARGETS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.txtpb")))
"""GPUs by their names: the files that describe them."""


@dataclass(frozen=True)
class Compiled:
    """A program for a GPU."""

    text: str
    """the optimised module"""
    bytes_needed: int
    """memory for arguments, results and temporaries"""


@dataclass(frozen=True)
class Target:
    """A GPU to compile for."""

    name: str
    bandwidth: float
    """of its memory, bytes per second"""
    memory: int
    """bytes"""
    devices: tuple[jax.Device, ...]

    def compile(self, function: Callable[..., Any], *arguments: PyTree) -> Compiled:
        """Compile a function of arrays.

        Args:
            function: to be traced.
            arguments: arrays or their shapes.
        """
        sharding = jax.sharding.SingleDeviceSharding(self.devices[0])

        def described(leaf):
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

        shapes = jax.tree.map(described, jax.eval_shape(lambda *each: each, *arguments))
        return finished(jax.jit(function).lower(*shapes))


def finished(lowered: Any) -> Compiled:
    """Compile a lowered function."""
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    needed = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return Compiled(compiled.as_text(), needed + memory.temp_size_in_bytes)


def target(name: str, *, devices: int = 1) -> Target:
    """Return a GPU, or several in one machine.

    Raises:
        ConfigError: if there is no such target, no CUDA, or JAX cannot compile without a device.
    """
    if name not in TARGETS:
        raise ConfigError(f"--target {name}: must be one of {', '.join(TARGETS)}")
    description = (Path(__file__).parent / f"{name}.txtpb").read_text()
    numbers = dict(re.findall(r"(\w+): (\d+)$", description, re.MULTILINE))
    from jax.experimental import topologies

    try:
        topology = topologies.get_topology_desc(
            platform="cuda", target_config=description, topology=f"1x1x{devices}"
        )
    except Exception as error:  # which type depends on what is missing
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(
            f"cannot compile for {name} with jax {jax.__version__} ({reason}); "
            "it needs CUDA's libraries: make gpu-programs installs them"
        ) from None
    fast.trace_for("cuda")
    return Target(
        name,
        float(numbers["memory_bandwidth"]),
        int(numbers["device_memory_size"]),
        tuple(topology.devices),
    )
