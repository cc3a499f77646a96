"""Choose implementations by the platform that a program is traced for.

JAX's arithmetic for networks is the default. It is correct everywhere, and the fastest choice where
XLA splits an operation among the threads of a CPU. `use_cpu_arithmetic` changes it for programs
that are traced later. Kernels of our own are used on GPUs that Triton compiles for.
"""

import importlib
from typing import Any

import jax

_in_use = False
_platform: str | None = None


def use_cpu_arithmetic(use: bool = True) -> None:
    """Select CPU arithmetic, or JAX's, for all programs that are traced for a CPU from now on.

    It is faster if XLA runs every operation on one thread, as after `metaevo.devices.setup`.
    """
    global _in_use
    _in_use = use


def cpu_arithmetic() -> bool:
    """Return whether a program that is traced now uses the arithmetic for CPUs."""
    return _in_use and on_cpu()


def trace_for(platform: str | None) -> None:
    """Set the platform of programs that are traced from now on; None for JAX's default backend."""
    global _platform
    _platform = platform


def on_cpu() -> bool:
    """Return whether a program that is traced now is for a CPU."""
    return (_platform or jax.default_backend()) == "cpu"


def has_triton() -> bool:
    """Return whether a program that is traced now is for a GPU that Triton compiles for.

    These are NVIDIA's from compute capability 8.0 (Ampere) on.
    """
    if _platform is not None:
        return _platform == "cuda"
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if not isinstance(device, jax.Device):  # None, or the name of a backend
        device = jax.devices(device)[0]
    try:
        return device.platform == "gpu" and float(device.compute_capability) >= 8.0
    except (AttributeError, ValueError):  # not NVIDIA's
        return False


def triton_module(name: str) -> Any:
    """Return the module `purerl.fast.NAME` of kernels; None if a program traced now has no Triton.

    Pallas is imported only here, so programs for CPUs do without it.
    """
    return importlib.import_module(f"purerl.fast.{name}") if has_triton() else None
