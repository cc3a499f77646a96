"""Settings of the judgement at the end of an evolution."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated

from annotated_types import Interval

from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import Contender, MetaProblem
from metaevo.judging.budget import QUICK, Budget
from metaevo.tasks.problem import LearnerProblem
from metaevo.tasks.task import Task

MOST = 100_000
"""Maximum number of settings, and of seeds of a setting."""


@dataclass(frozen=True)
class HeldOutConfig:
    """The judgement of any problem, against its contenders."""

    seeds: Annotated[int, Interval(ge=0, le=MOST)] = 128
    """held-out seeds of every contender; 0 for no judgement"""

    @property
    def budget(self) -> Budget:
        """Settings and seeds of each contender on each task."""
        return Budget(settings=0, seeds=self.seeds)

    @property
    def unseen_budget(self) -> Budget:
        """The budget on unseen tasks."""
        return self.budget

    @property
    def ranges(self) -> PlainDict:
        """Hyperparameters to tune."""
        return {}

    def contenders_of(self, problem: MetaProblem) -> Sequence[Contender]:
        """Return the hand-written contenders of a problem."""
        return problem.contenders()


@dataclass(frozen=True)
class EvaluationConfig(HeldOutConfig):
    """The judgement of parts: a budget of settings and seeds, and what is tuned and compared."""

    settings: Annotated[int, Interval(ge=0, le=MOST)] = 256
    """points of the space that every contender tries, in addition to the untuned setting"""
    screening_seeds: Annotated[int, Interval(ge=1, le=MOST)] = 2
    """seeds of every setting"""
    finalists: Annotated[int, Interval(ge=2, le=MOST)] = 8
    """the best settings and the untuned one, which train on all other seeds"""
    selection_seeds: Annotated[int, Interval(ge=1, le=MOST)] = 64
    """seeds that choose among the finalists"""
    space: PlainDict = field(default_factory=dict)
    """hyperparams to tune, each with a list of values or, as in a sweep, with a range
    ({log_uniform: [1e-4, 1e-2]})"""
    own: dict[str, PlainDict] = field(default_factory=dict)
    """for hand-written functions, by their names: hyperparams with their own ranges, instead of the
    common ones ({momentum: {learning_rate: {log_uniform: [1e-3, 1]}}})"""
    contenders: tuple[str, ...] = ()
    """hand-written functions to compare with, by their names ([adam, rmsprop]); empty for all"""
    unseen: dict[str, Task] = field(default_factory=dict)
    """tasks that evolution has not seen, by their names ({Acrobot-v1: {train: {num_envs: 8}}}), on
    which all are tuned and compared, too"""
    quick_unseen: bool = False
    """whether the unseen tasks have the smaller budget of `--comparison quick`"""

    @property
    def budget(self) -> Budget:
        """Settings and seeds of each contender on each task."""
        return Budget(
            self.settings, self.screening_seeds, self.finalists, self.selection_seeds, self.seeds
        )

    @property
    def unseen_budget(self) -> Budget:
        """The budget on unseen tasks."""
        return replace(self, **_limited(vars(self))).budget if self.quick_unseen else self.budget

    @property
    def ranges(self) -> PlainDict:
        """Hyperparameters to tune."""
        return self.space

    def contenders_of(self, problem: MetaProblem) -> Sequence[Contender]:
        """Return the hand-written parts that are chosen, with their own ranges."""
        assert isinstance(problem, LearnerProblem)
        return problem.contenders(self.contenders, self.own)


_LIMITS = {each.name: getattr(QUICK, each.name) for each in fields(QUICK)}


def resized(evaluation: PlainMapping, size: str) -> PlainDict:
    """Return the section `evaluation`, as plain data, for a size: none, quick or full."""
    if size == "full":
        return dict(evaluation)
    if size == "none":
        return {**evaluation, "seeds": 0} | ({"unseen": {}} if "unseen" in evaluation else {})
    return {**evaluation, **_limited(evaluation)}


def _limited(evaluation: PlainMapping) -> PlainDict:
    """Return the numbers of a quick comparison."""
    return {key: min(evaluation[key], most) for key, most in _LIMITS.items() if key in evaluation}
