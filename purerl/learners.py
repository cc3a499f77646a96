"""The registry of learners, by the names that configs use.

A `LearnerEntry` binds static and traced settings, a class that conforms to `purerl.types.Learner`,
and its slots. A custom learner has its own entry: see examples/sac.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from purerl import disco, dqn, lpg, ppo, q_learning
from purerl.envs.registry import Observations
from purerl.parts import losses, optimizers, schedules, update_rules
from purerl.types import Learner

HAND_WRITTEN: dict[str, dict[str, Callable[..., Any]]] = {
    **losses.HAND_WRITTEN,
    "make_optimizer": optimizers.HAND_WRITTEN,
    "update_rule": update_rules.HAND_WRITTEN,
    **schedules.HAND_WRITTEN,
}
"""The hand-written functions of every slot, by the names that configs use; first the reference."""


TOLD = frozenset({"progress", "frames", "key"})
"""Extra arguments that an optimizer receives from every learner with that slot."""


class LearnerEntry(NamedTuple):
    """A learner as `metaevo` builds, evolves and compares it."""

    config: type
    """static settings, a frozen dataclass"""
    hyperparams: type
    """traced settings, a `flax.struct.PyTreeNode` of numbers"""
    make: Callable[..., Learner]
    """`(config, env, **slots) -> Learner`"""
    slots: dict[str, tuple[str, ...]]
    """the arguments of `make` that a component can fill, each with the names of the hand-written
    functions (`HAND_WRITTEN`) that it is compared with, the reference first"""
    observations: Observations = "auto"
    """observations that the learner needs, an argument of `envs.make`"""
    told: frozenset[str] = frozenset()
    """extra arguments of every optimizer update, see `purerl.types.Context.extra_args`"""


LEARNERS: dict[str, LearnerEntry] = {
    "ppo": LearnerEntry(
        ppo.Config,
        ppo.Hyperparams,
        ppo.PPO,
        {
            "value_loss": ("squared", "clipped_squared", "huber"),
            "policy_loss": ("clipped_surrogate", "dpo"),
            "make_optimizer": ("adam", "momentum", "rmsprop"),
            "schedule": ("constant", "linear", "cosine"),
        },
        told=TOLD | {"epoch", "minibatch", "dormancy"},
    ),
    "dqn": LearnerEntry(
        dqn.Config,
        dqn.Hyperparams,
        dqn.DQN,
        {
            "value_loss": ("squared", "huber"),
            "make_optimizer": ("adam", "momentum", "rmsprop"),
            "schedule": ("constant", "cosine"),
        },
        told=TOLD | {"minibatch", "dormancy"},
    ),
    "q_learning": LearnerEntry(
        q_learning.Config,
        q_learning.Hyperparams,
        q_learning.QLearning,
        {"value_loss": ("squared", "huber", "sloped_squared")},
        observations="index",
    ),
    "lpg": LearnerEntry(
        lpg.Config,
        lpg.Hyperparams,
        lpg.LPG,
        {"update_rule": ("a2c",), "make_optimizer": ("adam", "sgd", "momentum", "rmsprop")},
        told=TOLD,
    ),
    "disco": LearnerEntry(disco.Config, disco.Hyperparams, disco.Disco, {}),
}


def num_frames(config: Any) -> int:
    """Return the environment steps that one whole training run takes."""
    return int(config.num_updates * config.frames_per_update)
