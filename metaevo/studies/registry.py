"""The studies of `metaevo evolve`, by the setting `study`."""

from typing import Any

from metaevo.config import ConfigError
from metaevo.config.plain import PlainMapping
from metaevo.config.references import Kind, resolve
from metaevo.parts.classes import SHIPPED
from metaevo.studies.study import Study, StudySettings

LEARNER = "learner"
"""Study to use if the settings do not name one."""
NAMES = {
    LEARNER: "metaevo.studies.learner:LearnerStudy",
    "cheap_talk": "metaevo.studies.games.cheap_talk:CheapTalkStudy",
    "shaping": "metaevo.studies.games.shaping:ShapingStudy",
}
"""The studies of metaevo, each imported when it is used."""


def _complaint(cls: Any) -> str:
    if not (isinstance(cls, type) and issubclass(cls, Study)):
        return "must be a class that derives from metaevo.Study"
    if not issubclass(cls.Settings, StudySettings):
        return "Settings must be a frozen dataclass that derives from metaevo.StudySettings"
    return ""


STUDY = Kind("study", "a class that derives from metaevo.Study", _complaint, NAMES)


def find(raw: PlainMapping) -> type[Study]:
    """Return the study that settings name; the file of a user's study is executed.

    Args:
        raw: unvalidated settings, of which `study` is read.

    Raises:
        ConfigError: for an unknown study.
    """
    name = raw.get("study", LEARNER)
    if isinstance(name, str) and name in SHIPPED:
        raise ConfigError(f"study = {name!r}: {name} is a part of a learner: evolve: {name}")
    found: type[Study] = resolve(STUDY, name)
    return found
