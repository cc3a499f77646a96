"""Shipped settings: configs/ in a checkout, metaevo/presets in a wheel."""

import os
from pathlib import Path

from metaevo.config.errors import ConfigError
from metaevo.config.hints import of_path, of_value

_SUFFIX = ".yaml"


def folder() -> Path:
    """Return the folder of the presets."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "presets"
    return installed if installed.is_dir() else package.parent / "configs"


def names() -> list[str]:
    """Return the names of the presets, such as `train/ppo_cartpole`."""
    root = folder()
    found = (path.relative_to(root).with_suffix("") for path in root.rglob(f"*{_SUFFIX}"))
    return sorted(path.as_posix() for path in found)


def find(text: str | Path) -> Path:
    """Return the file of a `--config` option: a path, or a preset's name."""
    if os.path.exists(text):
        return Path(text)
    name = str(text).removeprefix("configs/").removesuffix(_SUFFIX)
    known = names()
    if name in known:
        return folder() / f"{name}{_SUFFIX}"
    beside = [each for each in known if name.startswith(f"{each.partition('/')[0]}/")]
    hint = of_path(str(text)) or of_value(name, known, cutoff=0.7)
    if beside and not hint:
        hint = f"; there are {', '.join(beside)}"
    raise ConfigError(f"{text}: cannot be read: No such file or directory{hint}")
