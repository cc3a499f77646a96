"""The benchmark: a fixed list of tasks, and what random play and tuned PPO score on each."""

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.config import ConfigError, PlainDict, files, from_dict, load_yaml, merge, of_value
from metaevo.parts import learners

FOLDER = Path(__file__).parent
LEARNER = "ppo"
DEFAULT = "default"
"""Key in `learning_rates` for rules without an entry."""
FAMILIES, HORIZONS = ("control", "grids", "arcade"), ("short", "medium", "long")
"""Of the tasks of version 1."""
OTHER_KEYS, MORE_SEEDS = 100, 32
"""Random keys and agents of a second measurement."""
CORE = 1
"""The score pools this version's tasks; the score of later tasks is reported next to it."""


@dataclass(frozen=True)
class TaskSpec:
    """A task of the benchmark."""

    family: str
    horizon: str
    """of training, see `Benchmark.frames`"""
    env: str
    env_params: PlainDict = field(default_factory=dict)
    train: PlainDict = field(default_factory=dict)
    """changes of the section train that all tasks share"""
    hyperparams: PlainDict = field(default_factory=dict)
    since: int = CORE
    """the version of the list that added it; part of its random keys"""


class Reference(NamedTuple):
    """The two ends of a task's scale."""

    key: str
    """digest of the task, see `Benchmark.key`"""
    random: list[float]
    """scores of agents that never learn"""
    tuned: list[float]
    """scores of agents that PPO trains at the best of the default learning rates"""


@dataclass(frozen=True)
class Benchmark:
    """Everything that scores depend on; tasks may be added, in a new version."""

    version: int
    """the latest `since` of the tasks"""
    seeds: int
    """number of scored agents per task"""
    tuning_seeds: int
    """number of agents per learning rate in tuning"""
    learning_rates: dict[str, tuple[float, ...]]
    """learning rates to tune over, by name of the rule"""
    frames: dict[str, int]
    """environment steps of an agent by horizon"""
    train: PlainDict
    hyperparams: PlainDict
    functions: dict[str, str]
    """hand-written functions in PPO's slots; by default the first one of a slot"""
    tasks: dict[str, TaskSpec]
    references: dict[str, Reference]
    """by task"""
    learners: dict[str, dict[str, PlainDict]] = field(default_factory=dict)
    """settings of other learners by section, the same for all tasks; their defaults otherwise"""
    keys: int | None = None
    """replaces a task's version in its random keys"""

    def settings(self, task: str, learner: str = LEARNER) -> PlainDict:
        """Return the settings of a training on a task, without the rule, as plain data.

        The network, the normalisation and the discount of a task hold for every learner that has
        them.
        """
        spec = self.tasks[task]
        train = merge(self.train, spec.train)
        hyperparams = merge(self.hyperparams, spec.hyperparams)
        if learner != LEARNER:
            entry, own = learners.find(learner), self.learners.get(learner, {})
            shared = "hidden_sizes", "normalize_observations", "normalize_rewards"
            train = own.get("train", {}) | _with_fields(entry.config, train, shared)
            discount = _with_fields(entry.hyperparams, hyperparams, ("gamma",))
            hyperparams = own.get("hyperparams", {}) | discount
        return {
            "learner": learner,
            "task": {"env": spec.env, "env_params": spec.env_params},
            "train": {**train, "total_timesteps": self.frames[spec.horizon]},
            "hyperparams": hyperparams,
        }

    def rates(self, rule: str, given: Sequence[float] | None = None) -> list[float]:
        """Return the learning rates that a rule is tuned over: the user's or the benchmark's.

        Raises:
            ConfigError: if they are not four, or one is not positive and finite.
        """
        rates = list(given or self.learning_rates.get(rule, self.learning_rates[DEFAULT]))
        if len(rates) != 4 or not all(0 < rate < math.inf for rate in rates):
            raise ConfigError(
                f"learning_rates = {rates}: must be 4 positive numbers, as many as {rule} may try"
            )
        return rates

    def seed(self, task: str) -> int:
        """Return the seed of a task's random keys."""
        return self.tasks[task].since if self.keys is None else self.keys

    def key(self, task: str, learner: str = LEARNER) -> str:
        """Return a digest of everything in the benchmark that trainings on a task depend on."""
        settings = self.settings(task, learner)
        return digest(self.seed(task), self.seeds, self.tuning_seeds, settings)

    def with_other_keys(self) -> "Benchmark":
        """Return the benchmark with other random keys and more agents, for a second measurement."""
        return replace(self, keys=OTHER_KEYS, seeds=MORE_SEEDS)

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


def digest(*about: Any) -> str:
    """Hash plain data, or a single text, to 16 characters."""
    text = about[0] if len(about) == 1 else str(list(about))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_fields(cls: type, settings: PlainDict, names: Sequence[str]) -> PlainDict:
    """Return the named settings that are fields of a class."""
    known = {each.name for each in fields(cls)}
    return {name: settings[name] for name in names if name in settings and name in known}


@functools.cache
def benchmark() -> Benchmark:
    """Return the benchmark in this version of metaevo."""
    rows = files.read_json(FOLDER / "references.json")["tasks"].items()
    ends = {name: {key: row[key] for key in Reference._fields} for name, row in rows}
    return from_dict(Benchmark, {**load_yaml(FOLDER / "tasks.yaml"), "references": ends})
