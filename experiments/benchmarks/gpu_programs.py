"""Compile training and evolution for an H100 that need not be there, and count what they cost.

make gpu-programs                                     # installs CUDA's libraries (4 GB)
make gpu-programs ARGS="train/ppo_cartpole shaping/ipd --agents 1 64"

A program is a preset of configs/: an update of a training, or a generation. XLA compiles it for the
GPU by its description in h100.txtpb, with the flags that `metaevo` sets (`metaevo.devices.setup`).
The optimised program has exact numbers of kernel launches and host round trips, and the bytes that
its kernels read and write.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import metaevo

metaevo.devices.setup()  # before anything starts JAX

import jax
import numpy as np
from jax.experimental import topologies

from experiments.benchmarks import suites
from experiments.benchmarks.hlo import Program
from experiments.benchmarks.suites import make_problem, settings_of
from experiments.benchmarks.tables import Parser, Table, save
from purerl import fast

PRESETS = (
    "train/ppo_cartpole", "train/ppo_minatar", "train/ppo_memory", "train/dqn_cartpole",
    "train/q_learning_grid_world", "evolve_value_loss/blog", "evolve_optimizer/ppo",
    "evolve_optimizer/open", "evolve_optimizer/tasks", "evolve_drift/ppo", "evolve_lpg/lpg",
    "shaping/ipd", "cheap_talk/cartpole",
)  # fmt: skip
UPDATES = 30
"""Length of the trainings. One of another length costs as much for each update."""


def gpus(count: int) -> Sequence[jax.Device]:
    """Return GPUs in one machine, and trace for them from now on."""
    topology = topologies.get_topology_desc(
        platform="cuda",
        target_config=Path(__file__).with_name("h100.txtpb").read_text(),
        topology=f"1x1x{count}",
    )
    fast.trace_for("cuda")
    return topology.devices


def compiled(preset: str, agents: int, gpus: Sequence[jax.Device]) -> Program:
    """Compile a training of agents, or a block of generations whose candidates the GPUs share."""
    lower = _training if preset.startswith("train/") else _evolution
    return finished(lower(preset, agents, gpus))


def _training(preset: str, agents: int, gpus: Sequence[jax.Device]) -> jax.stages.Lowered:
    settings = settings_of(suites.preset(preset), UPDATES)
    population = settings.population(agents=agents)
    learner, env_params = population.task.learner, population.task.env_params
    functions = population.meta_params

    def train(keys):
        axes = 0, None, None, None
        result = jax.vmap(learner.train, axes)(keys, settings.hyperparams, functions, env_params)
        return result.episodes, result.metrics, jax.vmap(learner.policy)(result.state)

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), agents))
    where = jax.sharding.SingleDeviceSharding(gpus[0])
    return jax.jit(train, in_shardings=where).lower(keys)


def _evolution(preset: str, agents: int, gpus: Sequence[jax.Device]) -> jax.stages.Lowered:
    problem, settings = make_problem(preset, agents, 0)
    config = replace(settings.evolution, chunk_size=2**30)  # all agents at once
    with mock.patch.object(metaevo.devices, "select", return_value=list(gpus)):
        search = metaevo.Evolution(problem, settings.strategy.build(), config)
        block = metaevo.devices.spread(
            search._block, in_axes=(0, None, None), num_devices=len(gpus)
        )
        copies = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((len(gpus), *leaf.shape), leaf.dtype),
            search.template,
        )
        return block.lower(copies, np.int32(1), np.int32(0))


def finished(lowered: jax.stages.Lowered) -> Program:
    """Compile a lowered function."""
    with TemporaryDirectory() as folder:
        text = lowered.compile(compiler_options={"xla_dump_to": folder}).as_text()
        return Program(text or "", frozenset(_graphed(Path(folder))))


def _graphed(folder: Path) -> Iterator[str]:
    """Yield the names of the instructions inside CUDA graphs, which XLA calls command buffers.

    XLA writes the steps of a program as lines with a number, indented below what contains them. A
    second file has the instruction of each number. Without graphs the first is missing.
    """
    names: dict[int, str] = {}
    for path in folder.glob("*thunk_metadata.txt"):
        pattern = r'profile_annotation: "([^"]*)"\s+thunk_id: (\d+)'
        names |= {int(number): name for name, number in re.findall(pattern, path.read_text())}
    for path in folder.glob("*thunk_sequence_after_thunk_passes.txt"):
        graph: int | None = None  # indentation of the graph that contains a line
        for line in re.finditer(r"^( *)(\d+): (\w+)", path.read_text(), re.MULTILINE):
            indentation = len(line.group(1))
            if graph is None or indentation <= graph:
                graph = indentation if line.group(3) == "kCommandBuffer" else None
            elif int(line.group(2)) in names:
                yield names[int(line.group(2))]


def main(argv: Sequence[str]) -> int:
    """Compile the programs and print a row for each."""
    parser = Parser("gpu_programs", description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=f"default: {PRESETS}")
    parser.add_argument("--agents", type=int, nargs="+", default=(64,), help="or candidates")
    parser.add_argument("--save", type=Path, help="write the table there, for a page")
    args = parser.parse_args(argv)
    columns = "launches / update", "% in graphs", "syncs / update", "GB / update"
    gpu, table = gpus(1), Table("program", "agents", *columns)
    for name in args.presets or PRESETS:
        for agents in args.agents:
            try:
                cost = compiled(name, agents, gpu).cost(UPDATES)
            except metaevo.ConfigError as error:
                parser.error(str(error))
            graphed = f"{100 * cost.graphed / cost.launches:.0f}"
            table.row(name, agents, int(cost.launches), graphed, int(cost.syncs), cost.bytes / 1e9)
            if args.save is not None:
                save(args.save, "Programs for an H100", table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
