"""The objective of a sweep: trials in, scores at rungs out.

A `Program` evaluates settings: a function (here), trainings or evolutions
(`metaevo.studies.sweeps`).
"""

import contextlib
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from optuna.distributions import FloatDistribution

from metaevo.config import ConfigError, files, flatten, from_dict, merge, show, to_dict
from metaevo.config.plain import PlainDict, PlainMapping, nested
from metaevo.config.space import Params, Space, ends, free_space
from metaevo.evolution.problem import Purpose
from metaevo.runs.terminal import Progress
from metaevo.statistics import iqm
from metaevo.tuning.config import OF_THE_SWEEP, SweepConfig, SweepSettings
from metaevo.tuning.samplers import rungs
from metaevo.tuning.study import Study, Trial

S = TypeVar("S")
C = TypeVar("C", bound=SweepSettings)

NOT_SEARCHABLE = (*OF_THE_SWEEP, "learner", "evolve")
"""Settings that belong to the sweep as a whole, not to a trial."""
MAX_PROGRAMS = 16
"""Programs of static groups that are kept for later batches."""

Count = Callable[[int], object]
"""Called with the work just done, see `Program.work`; may raise to stop."""


class Rung(NamedTuple):
    """Several settings after a part of their evaluation."""

    scores: np.ndarray
    """[settings, seeds] NaN where an agent diverged, or no episode has ended"""
    diverged: np.ndarray
    """[settings] number of seeds that diverged"""
    frames: int = 0
    """environment steps of one setting so far, on all seeds"""


Rungs = Generator[Rung, Sequence[int] | None, None]
"""Rung by rung; takes the places of the settings that continue, None for all."""


class Program(ABC, Generic[S]):
    """The evaluation of settings with the same static values; compiled when it is first used."""

    traced: ClassVar[tuple[str, ...]] = ()
    """settings whose values never recompile, and sections of them; each ends with a point"""
    batch: ClassVar[int] = 1
    """trials at once, by default"""
    frames = 0
    """environment steps of a setting on one seed, to its end"""
    work = 1, "call"
    """the sum of all `count` for a setting on one seed, and its unit"""

    def __init__(self, settings: S) -> None:
        """Prepare the program of a static group; raise `ConfigError` if settings do not fit."""

    @abstractmethod
    def evaluate(self, settings: Sequence[S], purpose: Purpose, count: Count) -> Rungs:
        """Evaluate settings on the same seeds, rung by rung.

        The purpose is TUNING, or HELD_OUT for the confirmation, which has a single rung.
        """


@dataclass
class Objective(Generic[S]):
    """Evaluates trials in batches.

    Trials with equal static settings are a group, and share a program, which is built once.
    """

    space: Space
    config: SweepConfig
    settings_of: Callable[[Params], S]
    """returns the settings of a trial, or raises `ConfigError`"""
    kind: type[Program[S]]
    """the programs of static groups"""
    _programs: dict[str, Program[S]] = field(default_factory=dict)

    def config_of(self, params: Params) -> Params:
        """Return the settings of a trial as a config of `metaevo train` or `evolve`."""
        settings = to_dict(self.settings_of(params))
        return {key: value for key, value in settings.items() if key not in OF_THE_SWEEP}

    def program(self, settings: S) -> Program[S]:
        """Return the program of the settings' static group."""
        key = self.static_key(settings)
        if key not in self._programs:
            if len(self._programs) >= MAX_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            self._programs[key] = self.kind(settings)
        return self._programs[key]

    def start(self) -> Program[S]:
        """Return the program of the settings before the sweep.

        Raises:
            ConfigError: if they, or with them a name among the choices, cannot be trained.
        """
        for key, entry in self.space.items():
            for name in [each for each in ends(entry) if isinstance(each, str)]:
                with _named(key, name):
                    self.program(self.settings_of({key: name}))
        return self.program(self.settings_of({}))

    def static_key(self, settings: S) -> str:
        """Return a text that two settings share if one compiled program serves both.

        It contains all settings that are not traced, and which of the traced ones are None.
        """
        kept = {
            key: value is None if f"{key}.".startswith(self.kind.traced) else value
            for key, value in flatten(to_dict(settings)).items()
            if key.partition(".")[0] not in OF_THE_SWEEP
        }
        return json.dumps(kept, sort_keys=True)

    def run(self, batch: Sequence[Trial], study: Study, bar: Progress) -> None:
        """Evaluate a batch, group by group, and tell the study every result."""
        groups: dict[str, list[tuple[Trial, S]]] = {}
        for trial in batch:
            try:
                settings = self.settings_of(trial.params)
                self.program(settings)
            except ConfigError as error:
                print(f"warning: trial {trial.number} fails: {error}", file=sys.stderr)
                study.tell(replace(trial, outcome="failed", reason=str(error)))
            else:
                groups.setdefault(self.static_key(settings), []).append((trial, settings))
        for group in groups.values():
            self._climb([trial for trial, _ in group], [each for _, each in group], study, bar)

    def _climb(self, trials: list[Trial], settings: list[S], study: Study, bar: Progress) -> None:
        """Evaluate trials of one group rung by rung; some are stopped at the end of each."""
        evaluation = self.program(settings[0]).evaluate(settings, Purpose.TUNING, bar.update)
        steps, left = rungs(self.config), None
        for step in steps:
            rung = evaluation.send(left)
            left = []
            for place, trial in enumerate(trials):
                value, diverged = self.value(rung.scores[place]), int(rung.diverged[place])
                # Without a score because no episode has ended, a trial is trained further.
                is_stopped = diverged > 0
                if value is not None and len(steps) > 1:
                    is_stopped |= study.should_prune(trial, step, value)
                if step < steps[-1] and not is_stopped:
                    left.append(place)
                    continue
                is_complete = step == steps[-1] and value is not None
                study.tell(
                    replace(
                        trial,
                        outcome="complete" if is_complete else "pruned",
                        value=value,
                        scores=files.plain(rung.scores[place]),
                        frames=rung.frames,
                        diverged=diverged,
                    )
                )
            trials = [trials[place] for place in left]
            if not trials:
                return

    def value(self, scores: np.ndarray) -> float | None:
        """Return the objective of scores [seeds], or None if a score is not finite."""
        if not np.all(np.isfinite(scores)):
            return None
        scores = np.asarray(scores, dtype=np.float64)
        return iqm(scores) if self.config.statistic == "iqm" else float(np.mean(scores))


def function_objective(
    function: Callable[[Params], float], rules: PlainMapping, config: SweepConfig
) -> Objective[Params]:
    """Return the objective of a function; it has no rungs, and no settings before the sweep."""

    class Function(Program[Params]):
        def evaluate(self, settings: Sequence[Params], purpose: Purpose, count: Count) -> Rungs:
            scores: list[list[float]] = []
            for each in settings:
                scores.append([float(function(each))])
                count(1)
            yield Rung(np.array(scores), np.zeros(len(scores)))

    config = replace(config, scheduler="none", seeds=1, confirm_seeds=0)
    return Objective(free_space(rules), config, dict, Function)


def settings_objective(settings: C, kind: type[Program[Any]]) -> Objective[C]:
    """Return the objective of a sweep's settings, in which a trial's values take their places.

    The settings must allow every choice of the space, and both ends of every range.

    Raises:
        ConfigError: for anything wrong in the section `space`.
    """
    raw, space = to_dict(settings), free_space(settings.space)

    def settings_of(params: Params) -> C:
        values: PlainDict = {}
        for key, value in params.items():
            values = merge(values, nested(key, value))
        return from_dict(type(settings), merge(raw, values))

    for key, entry in space.items():
        if (section := key.partition(".")[0]) in NOT_SEARCHABLE:
            raise ConfigError(
                f"space.{key}: {section!r} belongs to the whole sweep, not to a trial"
            )
        values = ends(entry)
        if isinstance(entry, FloatDistribution):  # a number that is not whole
            values.append(entry.low + (entry.high - entry.low) / math.pi)
        for value in values:
            with _named(key, value):
                settings_of({key: value})
    return Objective(space, settings.sweep, settings_of, kind)


@contextlib.contextmanager
def _named(key: str, value: Any) -> Iterator[None]:
    """Name the searched setting in a `ConfigError` about one of its values."""
    try:
        yield
    except ConfigError as error:
        shown = f"{key} = {show(value)}: "
        raise ConfigError(f"space.{shown}{str(error).removeprefix(shown)}") from None
