"""Registry of the studies of `metaevo evolve`, by the setting `study`."""

from importlib import import_module

from metaevo.components import known
from metaevo.config import ConfigError, code, show
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainMapping
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.study import Study, StudySettings
from purerl.custom import is_custom

LEARNER = "learner"
"""Study to use if the settings do not name one."""
GAMES = {
    "cheap_talk": "CheapTalkStudy",
    "shaping": "ShapingStudy",
}
"""Classes in the modules of the same names in `games/`, which take 0.4 s to import."""


def find(raw: PlainMapping) -> type[Study]:
    """Return the study that settings name; the file of a user's study is executed.

    Args:
        raw: unvalidated settings, of which `study` is read.

    Raises:
        ConfigError: for an unknown study.
    """
    name = raw.get("study", LEARNER)
    if name == LEARNER:
        return LearnerStudy
    if isinstance(name, str) and name in GAMES:
        game: type[Study] = getattr(import_module(f"metaevo.studies.games.{name}"), GAMES[name])
        return game
    if isinstance(name, str) and is_custom(name):
        return _own(name)
    names = [LEARNER, *GAMES]
    hint = of_value(name, names)
    if name in known():
        hint = f"; {name} is a component of a learner: evolve: {name}"
    raise ConfigError(
        f"study = {show(name)}: must be one of {', '.join(names)}, "
        f"FILE.py:CLASS or MODULE:CLASS{hint}"
    )


def _own(name: str) -> type[Study]:
    cls = code.load("study", name)
    if not (isinstance(cls, type) and issubclass(cls, Study)):
        raise ConfigError(f"study = {show(name)}: must be a class that derives from metaevo.Study")
    if not issubclass(cls.Settings, StudySettings):
        raise ConfigError(
            f"study = {show(name)}: Settings must be a frozen dataclass that derives from "
            "metaevo.StudySettings"
        )
    return cls
