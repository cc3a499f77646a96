"""Compile a function for a GPU that the machine need not have.

XLA compiles for a GPU by its description; CUDA's libraries come with `make gpu-programs`.
The description decides the kernels and which loops become CUDA graphs.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax

from experiments.benchmarks.gpu_programs.hlo import Program
from metaevo.config import ConfigError
from purerl import fast
from purerl.types import PyTree

TARGETS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.txtpb")))
"""GPUs by their names: the files that describe them."""


class Compiled(NamedTuple):
    """A program for a GPU."""

    call: Any
    """JAX's compiled function; runs if the GPU is there"""
    graphed: frozenset[str]
    """names of the instructions that run inside CUDA graphs"""

    @property
    def bytes_needed(self) -> int:
        """Memory for arguments, results and temporaries."""
        memory = self.call.memory_analysis()
        inputs, outputs = memory.argument_size_in_bytes, memory.output_size_in_bytes
        return int(inputs + outputs + memory.temp_size_in_bytes)

    def program(self, bandwidth: float) -> Program:
        """Return the costs, for a memory of so many bytes per second."""
        return Program(self.call.as_text(), bandwidth, self.graphed)


@dataclass(frozen=True)
class Target:
    """A GPU to compile for."""

    bandwidth: int
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
    with TemporaryDirectory() as folder:
        compiled = lowered.compile(compiler_options={"xla_dump_to": folder})
        return Compiled(compiled, frozenset(_graphed(Path(folder))))


def _graphed(folder: Path) -> Iterator[str]:
    """Yield the names of the instructions inside CUDA graphs, which XLA calls command buffers.

    XLA writes the steps of a program as lines with a number, indented below what contains them. A
    second file has the instruction of each number. Without graphs the first is missing.
    """
    names = {}
    for path in folder.glob("*thunk_metadata.txt"):
        for block in path.read_text().split("thunk_metadata {"):
            thunk = re.search(r"thunk_id: (\d+)", block)
            name = re.search(r'profile_annotation: "([^"]*)"', block)
            if thunk and name:
                names[int(thunk.group(1))] = name.group(1)
    for path in folder.glob("*thunk_sequence_after_thunk_passes.txt"):
        graph: int | None = None  # indentation of the graph that contains a line
        for line in re.finditer(r"^( *)(\d+): (\w+)", path.read_text(), re.MULTILINE):
            indentation = len(line.group(1))
            if graph is not None and indentation > graph:
                if (number := int(line.group(2))) in names:
                    yield names[number]
            else:
                graph = indentation if line.group(3) == "kCommandBuffer" else None


def target(name: str, *, devices: int = 1) -> Target:
    """Return a GPU, or several in one machine.

    Raises:
        ConfigError: if there is no such target, no CUDA, or JAX cannot compile without a device.
    """
    if name not in TARGETS:
        raise ConfigError(f"--target {name}: must be one of {', '.join(TARGETS)}")
    description = _description(name)
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
    return _target(name, topology.devices)


def present() -> Target:
    """Return the first GPU of this machine.

    Raises:
        ConfigError: if there is none, or it is not one of `TARGETS`.
    """
    device = jax.devices()[0]
    if device.platform != "gpu":
        raise ConfigError("JAX sees no GPU here; pip install 'metaevo[cuda12]'")
    kind = device.device_kind
    name = next((name for name in TARGETS if name in kind.lower()), None)
    if name is None:
        raise ConfigError(f"{kind} is not described in {Path(__file__).parent.name}/*.txtpb")
    return _target(name, [device])


def _target(name: str, devices: Sequence[jax.Device]) -> Target:
    numbers = dict(re.findall(r"(\w+): (\d+)$", _description(name), re.MULTILINE))
    bandwidth, memory = int(numbers["memory_bandwidth"]), int(numbers["device_memory_size"])
    return Target(bandwidth, memory, tuple(devices))


def _description(name: str) -> str:
    return (Path(__file__).parent / f"{name}.txtpb").read_text()
