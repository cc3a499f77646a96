"""Import gymnax without its plotting libraries, which are loaded on first use.

Importing gymnax imports seaborn (with pandas and SciPy's statistics) and matplotlib, which takes
half of the start-up time of a script. During the import, stand-ins replace them.
(`importlib.util.LazyLoader` does not work here: `import` itself accesses an attribute of the
module, which loads it.)
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import flax  # noqa: F401 - loads JAX too, so that only gymnax sees the stand-ins


class StandIn(ModuleType):
    """A module that is imported on first use."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the module."""
        if name.startswith("__"):  # `import` asks for these
            raise AttributeError(name)
        if (child := f"{self.__name__}.{name}") in _STAND_INS:
            return _STAND_INS[child]
        return getattr(importlib.import_module(self.__name__), name)


NAMES = "seaborn", "matplotlib", "matplotlib.pyplot", "matplotlib.animation", "matplotlib.colors"
"""Modules that gymnax imports to draw."""
_STAND_INS = {name: StandIn(name) for name in NAMES if name not in sys.modules}
sys.modules.update(_STAND_INS)
try:
    importlib.import_module("gymnax")
finally:  # later imports get the real modules
    for _name in _STAND_INS:
        del sys.modules[_name]
