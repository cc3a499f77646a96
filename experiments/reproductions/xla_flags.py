"""An XLA flag for loops over scalars. Does not import JAX, because it must be set before."""

import os

LOOP_FLAG = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=100000000"


def lift_loop_limit() -> None:
    """Let XLA's CPU backend compile loops of any size into one function.

    By default it does so for the smallest loops only. All others dispatch every operation, which
    costs more than the operations of tabular learning. Networks are not affected. Extra options of
    the user are kept.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {LOOP_FLAG}".strip()
