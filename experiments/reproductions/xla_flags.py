"""A flag of XLA's for loops over scalars; to be set before JAX starts, so without importing it."""

import os

LOOP_FLAG = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=100000000"


def lift_loop_limit() -> None:
    """Let XLA's CPU backend compile loops of any size into one function.

    By default it does so for the smallest only; all others dispatch every operation, which costs
    more than the operations of tabular learning. Networks are not affected. A user's own
    extra options are left alone.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {LOOP_FLAG}".strip()
