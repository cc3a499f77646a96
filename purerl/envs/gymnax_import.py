"""Imports gymnax; what some of its environments draw with is imported when they draw.

Importing gymnax imports seaborn (with pandas and SciPy's statistics) and pyplot, a third of the
time in which a script of ours starts. Meanwhile stand-ins are in their place.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

DRAWING = "seaborn", "matplotlib.pyplot"


class StandIn(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        """Return what the module has under that name."""
        if name.startswith("__"):  # the import system looks at these
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _import() -> None:
    stand_ins = {name: StandIn(name) for name in DRAWING if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        importlib.import_module("gymnax")
    finally:  # others get the modules themselves
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


_import()
