"""Registry entries of the games."""

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
from metaevo.studies.study import TRAINING, Entry, alone

VICTIM = *TRAINING, "channel.scale"
GOALS = tuple(f"steering.{each}" for each in ("low", "high", "steps", "episodes", "oracle_frames"))
ENTRIES = {
    "cheap_talk": Entry(
        lambda raw, _: CheapTalkSettings.for_learner(raw),
        alone(CheapTalkStudy),
        (*VICTIM, "fitness."),
    ),
    "coin_game": Entry(lambda *_: CoinSettings, alone(CoinStudy), ("train.", "hyperparams.")),
    "shaping": Entry(lambda *_: ShapingSettings, ShapingStudy, ("game.", "opponent.")),
    "steering": Entry(
        lambda raw, _: SteeringSettings.for_learner(raw),
        alone(SteeringStudy),
        (*VICTIM, *GOALS),
    ),
}
