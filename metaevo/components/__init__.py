"""Learned parts of a learner, one file each.

A component is a module with

- `SLOT`: the learner's argument that it fills (`purerl.types` has the signatures),
- `Config`: a frozen dataclass of its settings, the `component:` section of a YAML,
- `make(config) -> Component`.
"""

from metaevo.components.component import Component
from metaevo.components.registry import COMPONENTS

__all__ = ["COMPONENTS", "Component"]
