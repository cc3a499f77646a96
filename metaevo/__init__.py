"""Evolution of parts of reinforcement-learning algorithms, on the device from end to end.

Importing this package starts nothing: `metaevo.devices.setup` can still choose the devices.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metaevo.components.discovery import load
    from metaevo.parallel import devices

    __version__: str

__all__ = ["__version__", "devices", "load"]

_HOMES = {"load": "metaevo.components.discovery", "devices": "metaevo.parallel.devices"}
"""Where each public name lives; imported when it is first used."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because most of them start JAX's backend."""
    if name == "__version__":
        metadata = importlib.import_module("importlib.metadata")
        try:
            return metadata.version("metaevo")
        except metadata.PackageNotFoundError:  # of a checkout that is on the path only
            return "unknown"
    if name not in _HOMES:
        raise AttributeError(f"module 'metaevo' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return module if _HOMES[name].endswith(f".{name}") else getattr(module, name)
