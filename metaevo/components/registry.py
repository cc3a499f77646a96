"""The components by the names that configs and saved runs use. A new one is one line here."""

from types import ModuleType

from metaevo.components import value_loss

COMPONENTS: dict[str, ModuleType] = {"value_loss": value_loss}
