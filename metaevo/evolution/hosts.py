"""Connect several processes, on one or more machines, that run one experiment in lockstep.

Every process runs the same program; JAX makes all devices visible to each. The first process
decides and writes: what depends on a file, a clock or chance, the others receive from it, by the
functions of `metaevo.evolution.devices`.
"""

from typing import Any

import jax

from metaevo.config import ConfigError


def connect(**given: Any) -> None:
    """Connect this process with the others; arguments of `jax.distributed.initialize`.

    Raises:
        ConfigError: if they cannot connect, or have different numbers of devices.
    """
    jax.config.update("jax_enable_preemption_service", False)  # which would take SIGTERM from us
    try:
        jax.distributed.initialize(**given)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"the processes cannot connect: {reason}") from None
    counts = {len(jax.local_devices(i)) for i in range(jax.process_count())}
    if len(counts) > 1:
        raise ConfigError(f"all processes need as many devices; they have {sorted(counts)}")
