"""The components by the names that configs and saved runs use: every module here with a `SLOT`."""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType


def _find() -> dict[str, ModuleType]:
    names = sorted(info.name for info in pkgutil.iter_modules([str(Path(__file__).parent)]))
    modules = {
        name: importlib.import_module(f"metaevo.components.{name}")
        for name in names
        if name not in {"component", "registry", "discovery"}
    }
    return {name: module for name, module in modules.items() if hasattr(module, "SLOT")}


COMPONENTS: dict[str, ModuleType] = _find()
