"""Shipped settings: configs/ in a checkout, metaevo/presets in a wheel."""

import difflib
import os
from pathlib import Path

from metaevo.config.errors import ConfigError

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
    """Return the file of a `--config` option: a path, or a preset's name.

    Raises:
        ConfigError: if neither exists and a preset has a similar name.
    """
    if os.path.exists(text):
        return Path(text)
    name = str(text).removeprefix("configs/").removesuffix(_SUFFIX)
    known = names()
    if name in known:
        return folder() / f"{name}{_SUFFIX}"
    if hint := _hint(name, known):
        raise ConfigError(f"{text}: cannot be read: No such file or directory{hint}")
    return Path(text)  # reading it reports the error


def _hint(name: str, known: list[str]) -> str:
    own = name.rpartition("/")[2]  # `standart` alone, or in another folder
    ends = [each.rpartition("/")[2] for each in known]
    near = difflib.get_close_matches(own, ends, n=1, cutoff=0.8)
    close = [each for each, end in zip(known, ends, strict=True) if end in near]
    close.sort(key=lambda each: -difflib.SequenceMatcher(None, name, each).ratio())
    if close:
        return f" (did you mean the preset {' or '.join(close[:2])}?)"
    group = name.rpartition("/")[0]
    if inside := [each for each in known if group and each.startswith(f"{group}/")]:
        return f"; the presets there: {', '.join(inside)}"
    return ""
