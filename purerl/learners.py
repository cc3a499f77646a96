"""The registry of learners, by the names that configs use.

A `LearnerEntry` binds static and traced settings, a class that conforms to `purerl.types.Learner`,
and its slots. A custom learner has its own entry: see examples/sac.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from purerl import disco, dqn, lpg, ppo, q_learning
from purerl.envs.registry import Observations
from purerl.types import Learner, Slot


class LearnerEntry(NamedTuple):
    """A learner as `metaevo` builds, evolves and compares it."""

    config: type
    """static settings, a frozen dataclass"""
    hyperparams: type
    """traced settings, a `flax.struct.PyTreeNode` of numbers"""
    make: Callable[..., Learner]
    """`(config, env, **functions) -> Learner`, with functions by the names of slots"""
    slots: tuple[Slot, ...] = ()
    """the functions that can be replaced"""
    observations: Observations = "auto"
    """observations that the learner needs, an argument of `envs.make`"""

    def slot(self, name: str) -> Slot | None:
        """Return a slot by its name, if the learner has it."""
        return next((slot for slot in self.slots if slot.name == name), None)


LEARNERS: dict[str, LearnerEntry] = {
    "ppo": LearnerEntry(ppo.Config, ppo.Hyperparams, ppo.PPO, ppo.SLOTS),
    "dqn": LearnerEntry(dqn.Config, dqn.Hyperparams, dqn.DQN, dqn.SLOTS),
    "q_learning": LearnerEntry(
        q_learning.Config,
        q_learning.Hyperparams,
        q_learning.QLearning,
        q_learning.SLOTS,
        observations="index",
    ),
    "lpg": LearnerEntry(lpg.Config, lpg.Hyperparams, lpg.LPG, lpg.SLOTS),
    "disco": LearnerEntry(disco.Config, disco.Hyperparams, disco.Disco),
}


def num_frames(config: Any) -> int:
    """Return the environment steps that one whole training run takes."""
    return int(config.num_updates * config.frames_per_update)
