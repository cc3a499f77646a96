"""`Task`: an environment with a learner's settings for it."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from metaevo.config.plain import PlainDict


class Scale(NamedTuple):
    """Scores on a task that count as 0 and 1 where tasks are compared."""

    random: float
    """of an agent that never learns"""
    reference: float
    """of the hand-written parts"""


@dataclass(frozen=True)
class Task:
    """An environment, with changes to the settings of a learner and distributions of them.

    Examples:
        >>> metaevo.Task("CartPole-v1", train={"num_envs": 8})
        >>> metaevo.Task("CartPole-v1", sample={"updates": {"integer": [16, 64]}})
    """

    env: Any = ""
    """the environment: its name, `my_env.py:Class`, `my_package:Class`, or in Python a gymnax
    environment as a class or an object; empty if it has the name of the task"""
    env_params: PlainDict = field(default_factory=dict)
    """overrides of the environment's parameters"""
    train: PlainDict = field(default_factory=dict)
    """changes of the section train"""
    hyperparams: PlainDict = field(default_factory=dict)
    """changes of the section hyperparams"""
    sample: PlainDict = field(default_factory=dict)
    """distributions by name, each with the rule of a search space: env_params.NAME,
    hyperparams.NAME, updates (the length of training) and reward_scale"""
