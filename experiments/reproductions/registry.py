"""The comparisons by name."""

from experiments.reproductions import (
    cartpole_dqn,
    cheap_talk,
    doors_dqn,
    doors_vectorisation,
    grid_world,
    opponent_shaping,
    ppo_curves,
)
from experiments.reproductions.comparison import Comparison

COMPARISONS: dict[str, Comparison] = {
    "grid-world": grid_world.COMPARISON,
    "cartpole-dqn": cartpole_dqn.COMPARISON,
    "doors-vectorisation": doors_vectorisation.COMPARISON,
    "doors-dqn": doors_dqn.COMPARISON,
    "ppo-cartpole": ppo_curves.CARTPOLE,
    "ppo-breakout": ppo_curves.BREAKOUT,
    "mfos-ipd": opponent_shaping.IPD,
    "mfos-chicken": opponent_shaping.CHICKEN,
    "mfos-pennies": opponent_shaping.PENNIES,
    "cheap-talk-cartpole": cheap_talk.COMPARISON,
}
