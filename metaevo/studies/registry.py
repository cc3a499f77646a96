"""Registry of the studies of `metaevo evolve`, by the setting `study`."""

from collections.abc import Callable
from typing import Any, NamedTuple

from metaevo.components import known
from metaevo.config import ConfigError, show
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.studies import custom
from metaevo.studies.games.cheap_talk import CheapTalkStudy
from metaevo.studies.games.coin_game import CoinStudy
from metaevo.studies.games.settings import (
    CheapTalkSettings,
    CoinSettings,
    ShapingSettings,
    SteeringSettings,
)
from metaevo.studies.games.shaping import ShapingStudy
from metaevo.studies.games.steering import SteeringStudy
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import experiment_class
from metaevo.studies.study import Study
from purerl.custom import is_custom

LEARNER = "learner"
"""Study to use if the settings do not name one."""


class Entry(NamedTuple):
    """A study."""

    settings: Callable[[PlainDict, str | None], type[Any]]
    """from raw settings, and the component that a script evolves, to their class"""
    make: Callable[..., Study]
    """`(settings, run_path, trust_source=...)`, as `LearnerStudy` has them"""
    free: tuple[str, ...]
    """prefixes of the settings that may differ when a result is judged again"""


def _alone(make: Callable[[Any], Study]) -> Callable[..., Study]:
    """Return a factory for a study that needs no copies and no saved code of a run."""
    return lambda settings, *_, **__: make(settings)


GOALS = tuple(f"steering.{each}" for each in ("low", "high", "steps", "episodes", "oracle_frames"))
TRAINING = "task.", "train.", "hyperparams."
VICTIM = *TRAINING, "channel.scale"
STUDIES = {
    LEARNER: Entry(experiment_class, LearnerStudy, (*TRAINING, "channel", "fitness.")),
    "cheap_talk": Entry(
        lambda raw, _: CheapTalkSettings.for_learner(raw),
        _alone(CheapTalkStudy),
        (*VICTIM, "fitness."),
    ),
    "coin_game": Entry(lambda *_: CoinSettings, _alone(CoinStudy), ("train.", "hyperparams.")),
    "shaping": Entry(lambda *_: ShapingSettings, ShapingStudy, ("game.", "opponent.")),
    "steering": Entry(
        lambda raw, _: SteeringSettings.for_learner(raw),
        _alone(SteeringStudy),
        (*VICTIM, *GOALS),
    ),
}


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
    if isinstance(name, str) and is_custom(name):
        own = custom.find(name)
        return Entry(lambda *_: own.Settings, _alone(own), own.free)
    hint = of_value(name, STUDIES)
    if name in known():
        hint = f"; {name} is a component of a learner: evolve: {name}"
    raise ConfigError(
        f"study = {show(name)}: must be one of {', '.join(STUDIES)}, "
        f"FILE.py:CLASS or MODULE:CLASS{hint}"
    )
