"""Shipped settings: configs/ in a checkout, metaevo/presets in a wheel."""

import os
from pathlib import Path

from metaevo.config.plain import ConfigError, of_value


def folder() -> Path:
    """Return the folder of the presets."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "presets"
    return installed if installed.is_dir() else package.parent / "configs"


def names() -> list[str]:
    """Return the names of the presets, such as `train/ppo_cartpole`."""
    found = (path.relative_to(folder()).with_suffix("") for path in folder().rglob("*.yaml"))
    return sorted(path.as_posix() for path in found)


def find(text: str | Path) -> Path:
    """Return the file of a `--config` option: a path, or a preset's name."""
    if os.path.exists(text):
        return Path(text)
    name, known = str(text).removeprefix("configs/").removesuffix(".yaml"), names()
    if name in known:
        return folder() / f"{name}.yaml"
    raise ConfigError(f"{text}: is no file, and no preset{of_value(name, known)}")
