"""Meta-parameters of the zoo or of another run, which a run uses and keeps a copy of."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.components import zoo
from metaevo.config import ConfigError
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory


class Kind(NamedTuple):
    """A kind of meta-parameters that a setting takes by name."""

    setting: str
    """key of the setting, also the slot of such entries in the zoo"""
    noun: str
    """the kind of component: "channel" """
    allowed: str
    """the values of the setting, in words"""
    names: Sequence[str]
    """values that are no meta-parameters, such as hand-written ones"""
    recognises: Callable[[Any], bool]
    """from the metadata of meta-parameters, whether they are of this kind"""

    def load(self, name: str, copy: RunDirectory | None) -> tuple[Any, PlainDict]:
        """Return meta-parameters of the zoo or of a run, and their metadata.

        Args:
            name: of an entry of the zoo, or a run's directory.
            copy: where an existing run has its copy, which is preferred.

        Raises:
            ConfigError: if it is neither, or of another kind.
        """
        path = self._directory(name, copy).meta_params
        if not os.path.isdir(path):
            raise ConfigError(f"holds no {self.noun} (no {path.name}/ in it)")
        meta_params, about = checkpoint.load_tree(path)
        if not self.recognises(about):
            raise ConfigError(f"holds no {self.noun}: something else was evolved")
        return meta_params, about

    def keep(self, name: str, copy: RunDirectory) -> None:
        """Copy the meta-parameters into the run that uses them, unless it has them already."""
        if name not in self.names and not copy.meta_params.exists():
            checkpoint.save_tree(copy.meta_params, *self.load(name, None))

    def _directory(self, name: str, copy: RunDirectory | None) -> RunDirectory:
        if copy is not None and os.path.isdir(copy.path):
            return copy
        if zoo.is_name(name):
            entry = zoo.find(name)
            if entry.card["slot"] != self.setting:
                raise ConfigError(f"{name} fills {entry.card['slot']}: it is no {self.noun}")
            return RunDirectory(entry.path)
        if not os.path.isdir(Path(name)):  # of a Path, a name that is too long raises
            hint = of_value(name, self.names)
            raise ConfigError(f"must be one of {self.allowed}{hint}")
        return RunDirectory(Path(name))
