"""The learners by the names that configs use.

A learner is a module with `Config` (static), `Hyperparams` (traced) and a class that conforms to
`purerl.types.Learner`, bound here with the slots that it has.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from purerl import dqn, ppo
from purerl.types import Learner


class LearnerEntry(NamedTuple):
    """What the outer loops and the scripts need to build a learner."""

    module: ModuleType
    """holds `Config` and `Hyperparams`"""
    make: Callable[..., Learner]
    """`(config, env, **slots) -> Learner`"""
    slots: tuple[str, ...]
    """the arguments of `make` that a component can fill"""


LEARNERS: dict[str, LearnerEntry] = {
    "ppo": LearnerEntry(ppo, ppo.PPO, ("value_loss", "policy_loss", "make_optimizer")),
    "dqn": LearnerEntry(dqn, dqn.DQN, ("value_loss", "make_optimizer")),
}


def num_frames(config: Any) -> int:
    """Return the environment steps that one whole training run takes."""
    return int(config.num_updates * config.frames_per_update)
