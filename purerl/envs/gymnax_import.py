"""Import gymnax without its plotting libraries, which are loaded on first use.

Importing gymnax imports seaborn (with pandas and SciPy's statistics) and pyplot, which takes a
third of the start-up time of a script. During the import, stand-ins replace both modules.
(`importlib.util.LazyLoader` does not work here: `import` itself accesses an attribute of the
module, which loads it.)
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import flax  # noqa: F401 - loads JAX too, so that only gymnax sees the stand-ins

DRAWING = "seaborn", "matplotlib.pyplot"


class StandIn(ModuleType):
    """A module that is imported on first use."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the module; names that begin with `__` do not import it."""
        if name.startswith("__") and sys.modules.get(self.__name__) in (None, self):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)
        return getattr(importlib.import_module(self.__name__), name)


def _stand_in(name: str) -> StandIn:
    stand_in, spec = StandIn(name), find_spec(name)
    stand_in.__spec__ = spec  # for checks that the package is installed
    if spec is not None and spec.submodule_search_locations is not None:
        stand_in.__path__ = spec.submodule_search_locations
    return stand_in


def _import() -> None:
    stand_ins = {name: _stand_in(name) for name in DRAWING if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        importlib.import_module("gymnax")
    finally:  # later imports get the real modules
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                sys.modules.pop(name, None)


_import()
