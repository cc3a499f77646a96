"""Learned parts of a learner, one file each, here or anywhere else.

A component is a module with

- `SLOT`: the learner's argument that it fills (`metaevo.components.slots`; `purerl.types` has the
  signatures), or a tuple of several; then `Config.slot` selects the slot,
- `Config`: a frozen dataclass of its settings, the `component:` section of a YAML,
- `make(config) -> Component`,

if it has numbers that can be tuned as a learner's hyperparameters are,

- `Hyperparams`: a `flax.struct.PyTreeNode` of numbers, each with a default; its function finds
  them as `context.component`,

if its meta-parameters are programs,

- `programs(config)`: how these behave, a `metaevo.evolution.problem.Programs`,
- `Strategy`: a subclass of `metaevo.StrategyConfig`, with the strategy that varies them by default,

and, where it has other things to show than any component of its slot, any of

- `draw(found, figures)`: draws PNG files into the folder `figures`,
- `CAPTIONS`: of these, by their file names,
- `observe(found) -> dict[str, float]`: numbers to remember in evaluation.json,
- `findings(found, observed) -> list[str]`: sentences about the learned part.
"""

from metaevo.components.component import Component, Found
from metaevo.components.registry import find, known

__all__ = ["Component", "Found", "find", "known"]
