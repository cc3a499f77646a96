"""Registry of the studies of `metaevo evolve`, by the setting `study`."""

from importlib import import_module

from metaevo.components import known
from metaevo.config import ConfigError, show
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.studies import custom
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import EvolveSettings, experiment_class
from metaevo.studies.study import TRAINING, Entry, alone
from purerl.custom import is_custom

LEARNER = "learner"
"""Study to use if the settings do not name one."""
GAMES = ("cheap_talk", "coin_game", "shaping", "steering")
"""Studies in `games/entries.py`, which takes 0.4 s to import."""


def _learner_settings(raw: PlainDict, component: str | None) -> type[EvolveSettings]:
    """Return the class of a learner's study, whose settings do not name it."""
    raw.pop("study", None)
    return experiment_class(raw, component)


STUDIES = {LEARNER: Entry(_learner_settings, LearnerStudy, (*TRAINING, "channel", "fitness."))}


def find(raw: PlainMapping) -> Entry:
    """Return the study that settings name.

    Args:
        raw: unvalidated settings, of which `study` is read.

    Raises:
        ConfigError: for an unknown study.
    """
    name = raw.get("study", LEARNER)
    if isinstance(name, str) and name in STUDIES:
        return STUDIES[name]
    if isinstance(name, str) and name in GAMES:
        entry: Entry = import_module("metaevo.studies.games.entries").ENTRIES[name]
        return entry
    if isinstance(name, str) and is_custom(name):
        own = custom.find(name)
        return Entry(lambda *_: own.Settings, alone(own), own.free)
    names = [*STUDIES, *GAMES]
    hint = of_value(name, names)
    if name in known():
        hint = f"; {name} is a component of a learner: evolve: {name}"
    raise ConfigError(
        f"study = {show(name)}: must be one of {', '.join(names)}, "
        f"FILE.py:CLASS or MODULE:CLASS{hint}"
    )
