"""Evolution of parts of reinforcement-learning algorithms, on the device from end to end.

Importing this package does not initialise JAX, so `metaevo.devices.setup` can still choose the
devices.
"""

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def public_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from the imports in its stub.

    `file` is the package's `__init__.py`, next to `__init__.pyi`. Each name is imported on first
    use, because most imports initialise JAX's backend.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    found = re.findall(r"^from (\S+) import (\w+) as (\w+)$", stub, re.MULTILINE)
    homes = {name: (module, there) for module, there, name in found}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, there = homes[name]
        known = vars(importlib.import_module(module))
        return known[there] if there in known else importlib.import_module(f"{module}.{there}")

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), list(homes)


_get, __dir__, __all__ = public_names(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> Any:
    """Return the version, or import a public name."""
    if name != "__version__":
        return _get(name)
    metadata = importlib.import_module("importlib.metadata")
    try:
        return metadata.version("metaevo")
    except metadata.PackageNotFoundError:  # of a checkout that is on the path only
        return "unknown"
