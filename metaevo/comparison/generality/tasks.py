"""The benchmark's tasks and its reference scores: random play and tuned PPO on each task."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Gt, Len

from metaevo.config import ConfigError, files, from_dict, load_yaml, merge
from metaevo.config.checks import Index, Number, Text
from metaevo.config.hints import of_value
from metaevo.config.plain import PlainDict
from metaevo.parts import learners

FOLDER = Path(__file__).parent
REFERENCES = FOLDER / "references.json"
LEARNER = "ppo"
SHARED = "hidden_sizes", "normalize_observations", "normalize_rewards"
"""Settings of the tasks that hold for every learner that has them; a discount, too."""
DEFAULT = "default"
"""Key in `learning_rates` for rules without an entry."""

Family = Literal["control", "grids", "arcade"]
Horizon = Literal["short", "medium", "long", "very long"]
FAMILIES, HORIZONS = ("control", "grids", "arcade"), ("short", "medium", "long")
"""Of the tasks of version 1."""
OTHER_KEYS, MORE_SEEDS = 100, 32
"""Random keys and agents of a second measurement."""
CORE = 1
"""The score pools this version's tasks; the score of later tasks is reported next to it."""


@dataclass(frozen=True)
class TaskSpec:
    """A task of the benchmark."""

    family: Family
    horizon: Horizon
    env: str
    env_params: PlainDict = field(default_factory=dict)
    train: PlainDict = field(default_factory=dict)
    """changes of the section train that all tasks share"""
    hyperparams: PlainDict = field(default_factory=dict)
    since: Annotated[int, Gt(0)] = CORE
    """the version of the list that added it; part of its random keys"""


@dataclass(frozen=True)
class LearnerSpec:
    """Settings of a learner other than PPO, the same for all tasks; its defaults otherwise."""

    train: PlainDict = field(default_factory=dict)
    hyperparams: PlainDict = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark:
    """Everything that scores depend on; tasks may be added, in a new version."""

    version: Annotated[int, Gt(0)]
    """the latest `since` of the tasks"""
    seeds: Annotated[int, Gt(1)]
    """number of scored agents per task"""
    tuning_seeds: Annotated[int, Gt(0)]
    """number of agents per learning rate in tuning"""
    learning_rates: dict[str, tuple[float, ...]]
    """learning rates to tune over, by name of the rule"""
    frames: dict[str, int]
    """environment steps of an agent by horizon"""
    train: PlainDict
    hyperparams: PlainDict
    tasks: dict[str, TaskSpec]
    learners: dict[str, LearnerSpec] = field(default_factory=dict)
    """other learners by their names"""
    keys: int | None = None
    """replaces a task's version in its random keys"""

    def settings(self, task: str, learner: str = LEARNER) -> PlainDict:
        """Return the settings of a training on a task, without the rule, as plain data."""
        spec = self.tasks[task]
        frames = {"total_timesteps": self.frames[spec.horizon]}
        train = merge(self.train, spec.train)
        hyperparams = merge(self.hyperparams, spec.hyperparams)
        if learner != LEARNER:
            entry, own = learners.find(learner), self.learners.get(learner, LearnerSpec())
            train = {**own.train, **_of_fields(entry.config, train, SHARED)}
            discount = _of_fields(entry.hyperparams, hyperparams, ("gamma",))
            hyperparams = {**own.hyperparams, **discount}
        return {
            "learner": learner,
            "task": {"env": spec.env, "env_params": spec.env_params},
            "train": {**train, **frames},
            "hyperparams": hyperparams,
        }

    def with_other_keys(self) -> "Benchmark":
        """Return the benchmark with other random keys and more agents, for a second measurement."""
        return replace(self, keys=OTHER_KEYS, seeds=MORE_SEEDS)

    def keys_of(self, task: str) -> int:
        """Return the number that seeds the random keys of a task."""
        return self.tasks[task].since if self.keys is None else self.keys

    def of_version(self, version: int) -> list[str]:
        """Return the names of the tasks that a version of the list has."""
        return [name for name, spec in self.tasks.items() if spec.since <= version]

    def chosen(self, names: Sequence[str] | None) -> list[str]:
        """Return tasks by their names, in the order of the list; by default all.

        Raises:
            ConfigError: if a task is unknown.
        """
        for name in names or ():
            if name not in self.tasks:
                known, hint = ", ".join(self.tasks), of_value(name, self.tasks)
                raise ConfigError(f"tasks: {name!r} is not in the list{hint}; it has: {known}")
        return [name for name in self.tasks if not names or name in names]


def _of_fields(cls: type, settings: PlainDict, names: Sequence[str]) -> PlainDict:
    """Return the named settings that are fields of a class."""
    known = {each.name for each in fields(cls)}
    return {name: settings[name] for name in names if name in settings and name in known}


def benchmark() -> Benchmark:
    """Return the benchmark in this version of metaevo."""
    return from_dict(Benchmark, load_yaml(FOLDER / "tasks.yaml"))


@dataclass(frozen=True)
class Reference:
    """The ends of a task's scale."""

    random: Annotated[list[Number], Len(2)]
    """scores of agents that never learn"""
    tuned: Annotated[list[Number], Len(2)]
    """scores of agents that PPO trains at its tuned learning rate"""
    learning_rate: Number
    key: Text


@dataclass(frozen=True)
class _References:
    version: Index
    command: Text
    commit: Text
    tasks: dict[str, Reference]


def read_references(path: Path = REFERENCES) -> PlainDict:
    """Return the shipped references.

    Raises:
        ConfigError: if they are damaged.
    """
    content: PlainDict = files.read_json(path, _References)
    return content
