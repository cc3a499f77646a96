"""Evolution of parts of reinforcement-learning algorithms, on the device from end to end.

Importing this package starts nothing: `metaevo.devices.setup` can still choose the devices.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metaevo.discovery import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Import `load` when it is first used, because it starts JAX's backend."""
    if name == "load":
        from metaevo.discovery import load

        return load
    raise AttributeError(f"module 'metaevo' has no attribute {name!r}")
