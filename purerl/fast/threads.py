"""Whether XLA splits the operations of a program among the threads of a CPU."""

import os

import jax

SPLITTING_PASS = "cpu-parallel-task-assigner"
"""What splits them, by its name in XLA."""


def operations_are_whole() -> bool:
    """Return whether this is a CPU on which every operation is one task for one thread.

    So it is where the environment's `XLA_FLAGS` disable the pass that splits operations, as
    `metaevo.devices.setup` does before JAX reads them. Elsewhere an operation with much arithmetic
    in it is handed to several threads, however short it is, which costs more than it gains.
    """
    return jax.default_backend() == "cpu" and SPLITTING_PASS in os.environ.get("XLA_FLAGS", "")
