"""The judge: contenders are tuned on equal budgets, and compared on fresh seeds.

    judgement = Judgement(contenders, Budget(), space={"learning_rate": {"log_uniform": [1e-3, 1]}})
    for _ in judgement.steps():        # one contender on one task at a time
        judgement.save(path)           # may be interrupted, and go on after `restore`
    judgement.scores

Every contender tries the same points of the search space, on the same seeds; see `Scores`. Points
of other problems than a learner's have no hyperparameters to tune: they meet on the held-out seeds.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from metaevo.config import ConfigError, files, from_dict, show
from metaevo.evolution.problem import (
    Contender,
    Purpose,
    check_candidate,
    frames_of_tasks,
    keys_for,
)
from metaevo.judging.budget import Budget
from metaevo.judging.scores import Scores
from metaevo.runs.checkpoint import load_tree, save_tree
from metaevo.runs.terminal import Progress as Bar
from metaevo.statistics import fill_missing
from metaevo.tasks.fitness import Windows, mean_returns
from metaevo.tasks.problem import LearnerProblem, digest
from metaevo.tasks.trainings import Trained, Trainings

if TYPE_CHECKING:
    from metaevo.studies.api import Found

_populations: "WeakKeyDictionary[LearnerProblem, dict[Any, Trainings]]" = WeakKeyDictionary()
"""Compiled trainings of problems, by what is static about a task."""
Progress = Callable[[int], Any]
POINTS = 64
"""Maximum number of points of a learning curve."""


class Judgement:
    """Contenders on the same tasks, judged step by step."""

    def __init__(
        self,
        contenders: Sequence[Contender],
        budget: Budget,
        *,
        space: Mapping[str, Any] | None = None,
        seed: int = 0,
        purpose: Purpose = Purpose.HELD_OUT,
    ):
        """Plan the judgement without compilation.

        Args:
            contenders: the first hand-written one is the reference of the scale of several tasks;
                without one there is no scale.
            budget: settings and seeds, the same for all.
            space: ranges of hyperparameters to tune, by their names; none for no tuning.
            seed: of all randomness.
            purpose: of the held-out seeds.

        Raises:
            ConfigError: for contenders on different tasks, two with the same name, a hyperparameter
                that the learner lacks, an invalid range, or meta-parameters of other parts.
        """
        self.contenders, self.seed, self.purpose = list(contenders), seed, purpose
        self.budget = budget if space else Budget(settings=0, seeds=budget.seeds)
        _check(self.contenders, is_tuned=bool(space))
        first = self.contenders[0].problem
        self._learner = first if isinstance(first, LearnerProblem) else None
        self.tasks = list(first.tasks)
        tuned = [dict(space) | dict(each.ranges) if space else {} for each in self.contenders]
        self.hyperparams = tuple(dict.fromkeys(name for ranges in tuned for name in ranges))
        bound = [] if self._learner is None else self._learner.bound
        self._lengths = [one.frames() for one in bound] or frames_of_tasks(first)
        """[tasks] environment steps of an agent, at the full length"""
        several = self._learner is not None and len(self.tasks) > 1
        self._is_scaled = several and any(not each.group for each in self.contenders)
        self.total = len(self.tasks) * (len(self.contenders) + self._is_scaled)
        """number of steps: each contender on each task, and the scale of each of several tasks"""
        agents = len(self.contenders) * self.budget.agents + 2 * budget.seeds * self._is_scaled
        self.frames = sum(self._lengths) * agents
        """environment steps of the whole judgement"""
        self.done = 0
        """steps that are done"""
        settings = [self._settings(*each) for each in zip(self.contenders, tuned, strict=True)]
        self.scores = self._without_scores(np.stack(settings))
        """NaN for what is not done"""

    @property
    def now(self) -> str:
        """What the next step is about, in words; empty after the last one."""
        if self.done == self.total:
            return ""
        task, contender = divmod(self.done, len(self.contenders) + self._is_scaled)
        names = [*(each.name for each in self.contenders), "scale"]
        where = f" on {self.tasks[task]}" if len(self.tasks) > 1 else ""
        return f"{names[contender]}{where}"

    @cached_property
    def identity(self) -> str:
        """Digest of what a judgement that goes on must have in common with its beginning."""
        contenders = [
            (each.name, each.group, digest(each.meta_params), each.problem.description)
            for each in self.contenders
        ]
        size = self.budget.shape, self.frames
        about = [contenders, self.tasks, size, self.seed, self.purpose.name]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def steps(self, progress: Progress = lambda frames: None) -> Iterator[int]:
        """Take the steps that are missing; yield the number of those that are done.

        `progress` is called with the environment steps just done, and may raise to stop.
        """
        while self.done < self.total:
            task, contender = divmod(self.done, len(self.contenders) + self._is_scaled)
            if contender < len(self.contenders):
                self._tune(contender, task, progress)
            else:
                self._measure_scale(task, progress)
            self.done += 1
            yield self.done

    def _without_scores(self, settings: np.ndarray) -> Scores:
        """Return the scores of a judgement that has not begun."""
        count, screening, chosen, selection, held_out = self.budget.shape
        front, points = (len(self.contenders), len(self.tasks)), POINTS if self._learner else 0
        finalists = np.full((*front, chosen), -1)
        finalists[..., 0] = 0
        steps = np.full((len(self.tasks), points), np.nan)
        for row, one in zip(steps, self._learner.bound if self._learner else (), strict=False):
            config = one.learner.config
            ends = Windows.at_most(POINTS, config.num_updates).ends()
            row[: len(ends)] = ends * config.frames_per_update
        return Scores(
            contenders=tuple(each.name for each in self.contenders),
            groups=tuple(each.group for each in self.contenders),
            tasks=tuple(self.tasks),
            screening=np.full((*front, count, screening), np.nan),
            finalists=finalists,
            selection=np.full((*front, chosen, selection), np.nan),
            held_out=np.full((*front, chosen, held_out), np.nan),
            hyperparams=self.hyperparams,
            settings=settings,
            scale=np.full((len(self.tasks), 2), np.nan) if self._is_scaled else None,
            frames=self.frames,
            curves=np.full((*front, chosen, points), np.nan),
            steps=steps,
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the scores so far to an .npz file, which is replaced atomically."""
        files.make_folder(Path(path).parent)
        progress = {"done": self.done, "total": self.total, "identity": self.identity}
        save_tree(Path(path), self.scores.arrays(), {**self.scores.about(), **progress})

    def restore(self, path: str | os.PathLike) -> None:
        """Read the scores so far of the same judgement.

        Raises:
            ConfigError: if the file is of other contenders, tasks, settings or budgets, or damaged.
        """
        arrays, about = load_tree(Path(path))
        same = about.get("identity") == self.identity
        own: Any = self.scores.settings
        if not same or not np.array_equal(arrays["settings"], own, equal_nan=True):
            raise ConfigError(f"{path}: is of a judgement with other contenders or settings")
        self.scores, self.done = replace(self.scores, **arrays), about["done"]

    def _settings(self, contender: Contender, ranges: Mapping[str, Any]) -> np.ndarray:
        """Return the settings [N, hyperparams] of a contender; NaN where it has no value."""
        found = np.full((self.budget.shape[0], len(self.hyperparams)), np.nan)
        problem = contender.problem
        if ranges and isinstance(problem, LearnerProblem):
            known = vars(problem.bound[0].hyperparams).items()
            tunable = [name for name, each in known if isinstance(each, int | float)]
            for name in ranges:
                if name not in tunable:
                    allowed = ", ".join(tunable)
                    raise ConfigError(
                        f"space.{name}: no tunable hyperparameter; allowed: {allowed}"
                    )
            columns = [self.hyperparams.index(name) for name in ranges]
            found[1:, columns] = self.budget.points(ranges, self.seed)
        return found

    def _tune(self, contender: int, task: int, progress: Progress) -> None:
        """Try all settings on the screening seeds, then the best of them on all other seeds."""
        count, screening, _, selection, _ = self.budget.shape
        tuning = keys_for(self.seed, Purpose.TUNING, screening + selection)
        held_out = keys_for(self.seed, self.purpose, self.budget.seeds)
        at, scores = (contender, task), self.scores
        if self._learner is None:
            from metaevo.evolution.evaluation import evaluate

            each = self.contenders[contender]
            point = jax.tree.map(lambda leaf: np.asarray(leaf)[np.newaxis], each.meta_params)
            scores.held_out[at] = evaluate(each.problem, point, held_out, task=task).scores
            progress(self._lengths[task] * self.budget.seeds)
            return
        if screening:
            settings = self._hyperparams(*at, range(count))
            trained = self._train(*at, settings, tuning[:screening], progress)
            scores.screening[at] = trained.scores
            scores.finalists[at] = self.budget.best(scores.screening[at])
        keys = jax.numpy.concatenate([tuning[screening:], held_out])
        finalists = self._hyperparams(*at, scores.finalists[at].tolist())
        trained = self._train(*at, finalists, keys, progress)
        parts = np.split(trained.scores, [selection], axis=1)
        scores.selection[at], scores.held_out[at] = parts
        sums = jax.tree.map(lambda leaf: leaf[:, selection:].sum(axis=1), trained.episodes)
        curves = mean_returns(sums)
        assert scores.curves is not None
        scores.curves[at][:, : curves.shape[1]] = curves

    def _measure_scale(self, task: int, progress: Progress) -> None:
        """Measure random play and the tuned reference on seeds of their own."""
        reference = [bool(each.group) for each in self.contenders].index(False)
        keys = keys_for(self.seed, Purpose.NORMALISATION, self.budget.seeds)
        winner = self.scores.winner(self.contenders[reference].name, self.tasks[task])
        untuned, tuned = self._hyperparams(reference, task, [0, winner])
        trained = self._train(reference, task, [untuned.random_play(), tuned], keys, progress)
        low, high = fill_missing(trained.scores)
        gains = high - low
        if gains.mean() > 2 * gains.std() / np.sqrt(len(gains)):  # else there is no scale
            assert self.scores.scale is not None
            self.scores.scale[task] = low.mean(), high.mean()

    def _hyperparams(self, contender: int, task: int, settings: Iterable[int]) -> list[Any]:
        """Return the hyperparameters of a contender in some settings; 0 is untuned."""
        problem: Any = self.contenders[contender].problem
        found = []
        for index in settings:
            tuned = self.scores.setting(contender, index)
            found.append(problem.bound[task].hyperparams.replace(**tuned))
        return found

    def _train(
        self,
        contender: int,
        task: int,
        hyperparams: Sequence[Any],
        keys: jax.Array,
        progress: Progress,
    ) -> Trained:
        """Train agents of a contender on a task, with all hyperparameters on all keys."""
        problem: Any = self.contenders[contender].problem
        own = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0)
        population, env_params = self._population(problem, task), problem.bound[task].env_params
        every = [self.contenders[contender].meta_params] * len(hyperparams)
        return population.train(own, hyperparams, every, progress, env_params)

    def _population(self, problem: LearnerProblem, task: int) -> Trainings:
        """Return the compiled training, which all judgements of the problem share.

        So do its tasks if they differ in traced numbers only.
        """
        bound = problem.bound[task]
        count, screening, chosen, selection, held_out = self.budget.shape
        # One compiled program for both rounds, where small chunks are as fast as large ones.
        fewest = min(count * screening or np.inf, chosen * (selection + held_out))
        is_cpu = jax.local_devices()[0].platform == "cpu"
        agents = int(fewest) if is_cpu else None
        learner, shapes = bound.learner, repr(jax.tree.map(np.shape, bound.env_params))
        known = _populations.setdefault(problem, {})
        objects = id(learner.env), id(getattr(learner.config, "network", None))
        key = repr(learner.config), *objects, shapes, agents, bound.evaluations
        if key not in known:
            drawn = jax.eval_shape(problem.init, jax.random.key(0))
            example = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), drawn)
            every = Windows.at_most(POINTS, learner.config.num_updates).every
            known[key] = Trainings(bound, example, problem.weights, agents=agents, log_every=every)
        return known[key]


def _check(contenders: Sequence[Contender], *, is_tuned: bool) -> None:
    if not contenders:
        raise ConfigError("contenders: must have at least one")
    first = contenders[0].problem
    names = [each.name for each in contenders]
    for each in contenders:
        if names.count(each.name) > 1:
            raise ConfigError(f"contenders: two are called {each.name!r}")
        if is_tuned and not isinstance(each.problem, LearnerProblem):
            raise ConfigError(f"space: {each.name} trains no learner that could be tuned")
        if list(each.problem.tasks) != list(first.tasks):
            raise ConfigError(
                f"contenders: {each.name} is on the tasks {', '.join(each.problem.tasks)}, and "
                f"{names[0]} on {', '.join(first.tasks)}: must be the same"
            )
        check_candidate(each.problem, each.meta_params, f"contenders: {each.name}")


def judge(
    contenders: Sequence["Contender | Found"],
    budget: Budget | None = None,
    *,
    space: Mapping[str, Any] | None = None,
    seed: int = 0,
    path: str | os.PathLike | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Tune contenders on equal budgets, and compare them on fresh seeds.

    Args:
        contenders: what to compare, such as what was evolved and `problem.contenders()`.
        budget: settings and seeds of each contender on each task.
        space: hyperparameters to tune, each with a list of values or a range; by default none.
        seed: of all randomness; the seeds of evolution, validation, tuning and comparison differ.
        path: an .npz file to keep what is done, so that an interrupted judgement goes on.
        progress: called with the environment steps just done; by default a progress bar.

    Raises:
        ConfigError: before compilation, for invalid contenders, numbers or ranges.

    Examples:
        >>> space = {"learning_rate": {"log_uniform": [1e-3, 1e-2]}}
        >>> rivals = [found, *problem.contenders()]
        >>> scores = metaevo.judge(rivals, metaevo.Budget(settings=64), space=space)
        >>> print(scores.verdict())
    """
    entered = [one if isinstance(one, Contender) else one.contender() for one in contenders]
    if not isinstance(budget, Budget | None):
        raise ConfigError(f"budget = {show(budget)}: must be a metaevo.Budget")
    numbers = vars(budget or Budget())  # of settings of an evaluation, which have more, too
    checked = from_dict(Budget, {each.name: numbers[each.name] for each in fields(Budget)})
    judgement = Judgement(entered, checked, space=space, seed=seed)
    file = None if path is None else Path(path)
    if file is not None and file.exists():
        judgement.restore(file)
    return run(judgement, file, progress=progress)


def run(
    judgement: Judgement,
    file: Path | None,
    title: str = "judging",
    *,
    progress: Progress | None = None,
    check_stop: Callable[[], None] = lambda: None,
) -> Scores:
    """Finish a judgement; a file keeps its scores, and loses those of another judgement.

    `progress` replaces the bar. `check_stop` is called often, and raises to stop.
    """
    if file is not None:
        with contextlib.suppress(ConfigError):  # of other settings, or of an evolution that went on
            judgement.restore(file)
    total, done = judgement.frames, judgement.frames * judgement.done // judgement.total
    with Bar(
        total=total, initial=done, desc=title, unit="frame", unit_scale=True,
        disable=progress is not None, check_stop=check_stop,
    ) as bar:  # fmt: skip
        bar.stage(f"{title}: {judgement.now}")
        for _ in judgement.steps(progress or bar.update):
            if file is not None:
                judgement.save(file)
            bar.stage(f"{title}: {judgement.now}")
    return judgement.scores
