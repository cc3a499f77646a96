"""The judge: contenders are tuned on equal budgets, and compared on fresh seeds.

    judgement = Judgement(contenders, Budget(), space={"learning_rate": {"log_uniform": [1e-3, 1]}})
    for _ in judgement.steps():        # one contender on one task at a time
        judgement.save(path)           # may be interrupted, and go on after `restore`
    judgement.scores()

Every contender tries the same points of the search space, on the same seeds; see `Scores`. Points
of other problems than a learner's have no hyperparameters to tune: they meet on the held-out seeds.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import jax
import numpy as np

from metaevo import statistics
from metaevo.config import ConfigError, files
from metaevo.evolution.problem import Contender, Purpose, check_candidate, frames_of_tasks, keys_for
from metaevo.judging.budget import Budget
from metaevo.judging.pool import finalists, pool
from metaevo.judging.scores import Scores, read_arrays
from metaevo.runs.progress import Progress as Bar
from metaevo.tasks.agents import Trained
from metaevo.tasks.arguments import digest
from metaevo.tasks.fitness import Windows, mean_returns
from metaevo.tasks.population import Population
from metaevo.tasks.problem import LearnerProblem

_populations: "WeakKeyDictionary[LearnerProblem, dict[Any, Population]]" = WeakKeyDictionary()
"""Compiled trainings of problems, by what is static about a task."""
Progress = Callable[[int], Any]
POINTS = 64
"""Maximum number of points of a learning curve."""


class Entrant(Protocol):
    """What takes part in a judgement, such as what `metaevo.evolve` returns."""

    def contender(self) -> Contender:
        """Return it as a contender."""
        ...


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
        names = dict.fromkeys(space or {})
        for each in self.contenders if space else ():
            names |= dict.fromkeys(each.ranges)
        self.hyperparams = tuple(names)
        self._settings = np.stack([self._pool(each, dict(space or {})) for each in self.contenders])
        count, screening, chosen, selection, held_out = self.budget.shape
        front = len(self.contenders), len(self.tasks)
        self._arrays = {
            "screening": np.full((*front, count, screening), np.nan),
            "finalists": np.full((*front, chosen), -1),
            "selection": np.full((*front, chosen, selection), np.nan),
            "held_out": np.full((*front, chosen, held_out), np.nan),
            "curves": np.full((*front, chosen, POINTS if self._learner else 0), np.nan),
        }
        self._arrays["finalists"][..., 0] = 0
        if self._is_scaled:
            self._arrays["scale"] = np.full((len(self.tasks), 2), np.nan)
        self.done = 0
        """steps that are done"""

    @property
    def total(self) -> int:
        """Number of steps: each contender on each task, and the scale of each of several tasks."""
        return len(self.tasks) * (len(self.contenders) + self._is_scaled)

    @property
    def frames(self) -> int:
        """Environment steps of the whole judgement."""
        if self._learner is None:
            each = frames_of_tasks(self.contenders[0].problem)
            return sum(each) * len(self.contenders) * self.budget.seeds
        configs = [one.learner.config for one in self._learner.bound]
        steps = sum(config.num_updates * config.frames_per_update for config in configs)
        agents = len(self.contenders) * self.budget.agents
        return steps * (agents + 2 * self.budget.seeds * self._is_scaled)

    @property
    def now(self) -> str:
        """What the next step is about, in words; empty after the last one."""
        if self.done == self.total:
            return ""
        task, contender = divmod(self.done, len(self.contenders) + self._is_scaled)
        names = [*(each.name for each in self.contenders), "scale"]
        where = f" on {self.tasks[task]}" if len(self.tasks) > 1 else ""
        return f"{names[contender]}{where}"

    @property
    def identity(self) -> str:
        """Digest of what a judgement that goes on must have in common with its beginning."""
        contenders = [
            (each.name, each.group, digest(each.meta_params), each.problem.description)
            for each in self.contenders
        ]
        about = [contenders, self.tasks, self.seed, self.purpose.name, self.frames]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    @property
    def _is_scaled(self) -> bool:
        several = self._learner is not None and len(self.tasks) > 1
        return several and any(not each.group for each in self.contenders)

    def steps(self, progress: Progress | None = None) -> Iterator[int]:
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

    def scores(self) -> Scores:
        """Return the scores once all steps are done."""
        arrays: dict[str, Any] = dict(self._arrays)
        return Scores(
            contenders=tuple(each.name for each in self.contenders),
            groups=tuple(each.group for each in self.contenders),
            tasks=tuple(self.tasks),
            hyperparams=self.hyperparams,
            settings=self._settings,
            frames=self.frames,
            steps=self._steps,
            **arrays,
        )

    @property
    def _steps(self) -> np.ndarray:
        """Environment steps [tasks, points] at the points of the curves; NaN after the last."""
        found = np.full((len(self.tasks), self._arrays["curves"].shape[-1]), np.nan)
        for row, one in zip(found, self._learner.bound if self._learner else (), strict=False):
            config = one.learner.config
            ends = Windows.at_most(POINTS, config.num_updates).ends()
            row[: len(ends)] = ends * config.frames_per_update
        return found

    def save(self, path: str | os.PathLike) -> None:
        """Write the scores so far to an .npz file, which is replaced atomically."""
        state = {"done": self.done, "total": self.total, "identity": self.identity}
        files.make_folder(Path(path).parent)
        with files.replacing(Path(path)) as file:
            np.savez_compressed(file, **{**self.scores().arrays(), **self._arrays, **state})

    def restore(self, path: str | os.PathLike) -> None:
        """Read the scores so far of the same judgement.

        Raises:
            ConfigError: if the file is of other contenders, tasks, settings or budgets, or damaged.
        """
        saved, kept = read_arrays(path), {"settings": self._settings, **self._arrays}
        shapes = {name: array.shape for name, array in kept.items()}
        same = {name: saved[name].shape for name in shapes if name in saved} == shapes
        same = same and np.array_equal(saved["settings"], self._settings, equal_nan=True)
        if not same or str(saved.get("identity")) != self.identity:
            raise ConfigError(f"{path}: is of a judgement with other contenders or settings")
        self._arrays = {name: saved[name] for name in self._arrays}
        self.done = int(saved["done"])

    def settings_of(self, contender: int, index: int) -> dict[str, float]:
        """Return the hyperparameters of a setting; the untuned one, 0, has none."""
        if not index:
            return {}
        values = zip(self.hyperparams, self._settings[contender, index].tolist(), strict=True)
        return {name: value for name, value in values if np.isfinite(value)}

    def _pool(self, contender: Contender, space: dict[str, Any]) -> np.ndarray:
        """Return the settings [N, hyperparams] of a contender; NaN where it has no value."""
        if not space:
            return np.full((1, 0), np.nan)
        assert isinstance(contender.problem, LearnerProblem)
        known = contender.problem.bound[0].hyperparams
        for name in {**space, **contender.ranges}:
            if not isinstance(getattr(known, name, None), int | float):
                allowed = ", ".join(n for n, v in vars(known).items() if isinstance(v, int | float))
                raise ConfigError(f"space.{name}: no tunable hyperparameter; allowed: {allowed}")
        found = np.full((self.budget.shape[0], len(self.hyperparams)), np.nan)
        rules = {**space, **contender.ranges}
        try:
            points = pool(rules, self.budget.settings, self.seed)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        found[1:, [self.hyperparams.index(name) for name in rules]] = points
        return found

    def _tune(self, contender: int, task: int, progress: Progress | None) -> None:
        """Try all settings on the screening seeds, then the best of them on all other seeds."""
        count, screening, chosen, selection, _ = self.budget.shape
        tuning = keys_for(self.seed, Purpose.TUNING, screening + selection)
        held_out = keys_for(self.seed, self.purpose, self.budget.seeds)
        at, arrays = (contender, task), self._arrays
        if self._learner is None:
            arrays["held_out"][at] = self._evaluate(contender, task, held_out, progress)
            return

        def train(settings: Sequence[int], keys: jax.Array) -> Trained:
            rows = [self._with(contender, task, index) for index in settings]
            return self._train(contender, task, rows, keys, progress)

        if screening:
            arrays["screening"][at] = _scores(train(range(count), tuning[:screening]))
            arrays["finalists"][at] = finalists(arrays["screening"][at], chosen)
        keys = jax.numpy.concatenate([tuning[screening:], held_out])
        found = train(arrays["finalists"][at].tolist(), keys)
        arrays["selection"][at], arrays["held_out"][at] = np.split(
            _scores(found), [selection], axis=1
        )
        sums = jax.tree.map(lambda leaf: leaf[:, selection:].sum(axis=1), found.episodes)
        curves = mean_returns(sums)
        arrays["curves"][at][:, : curves.shape[1]] = curves

    def _evaluate(
        self, contender: int, task: int, keys: jax.Array, progress: Progress | None
    ) -> np.ndarray:
        """Return the scores [1, keys] of a point of a problem that is not a learner's."""
        from metaevo.evolution.evaluation import evaluate

        each = self.contenders[contender]
        point = jax.tree.map(lambda leaf: np.asarray(leaf)[np.newaxis], each.meta_params)
        found = evaluate(each.problem, point, keys, task=task).scores
        if progress is not None:
            progress(frames_of_tasks(each.problem)[task] * len(keys))
        return found

    def _measure_scale(self, task: int, progress: Progress | None) -> None:
        """Measure random play and the tuned reference on seeds of their own."""
        reference = [bool(each.group) for each in self.contenders].index(False)
        keys = keys_for(self.seed, Purpose.NORMALISATION, self.budget.seeds)
        bound = self._problem(reference).bound[task]
        selection = np.nan_to_num(self._arrays["selection"][reference, task], nan=-np.inf)
        best = int(selection.mean(axis=1).argmax()) if selection.size else 0
        winner = int(self._arrays["finalists"][reference, task, best])
        rivals = [bound.hyperparams.random_play(), self._with(reference, task, winner)]
        found = _scores(self._train(reference, task, rivals, keys, progress))
        low, high = statistics.fill_missing({"low": found[0], "high": found[1]}).values()
        gains = high - low
        if gains.mean() > 2 * gains.std() / np.sqrt(len(gains)):  # else there is no scale
            self._arrays["scale"][task] = low.mean(), high.mean()

    def _problem(self, contender: int) -> LearnerProblem:
        problem: Any = self.contenders[contender].problem
        return problem

    def _with(self, contender: int, task: int, setting: int) -> Any:
        hyperparams = self._problem(contender).bound[task].hyperparams
        return hyperparams.replace(**self.settings_of(contender, setting))

    def _train(
        self,
        contender: int,
        task: int,
        hyperparams: Sequence[Any],
        keys: jax.Array,
        progress: Progress | None,
    ) -> Trained:
        """Train agents of a contender on a task, with all hyperparameters on all keys."""
        own = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0)
        meta_params = [self.contenders[contender].meta_params] * len(hyperparams)
        problem = self._problem(contender)
        population, env_params = self._population(problem, task), problem.bound[task].env_params
        return population.train(own, hyperparams, meta_params, progress, env_params)

    def _population(self, problem: LearnerProblem, task: int) -> Population:
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
        key = repr(learner.config), id(learner.env), shapes, agents
        if key not in known:
            drawn = jax.eval_shape(problem.init, jax.random.key(0))
            example = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), drawn)
            every = Windows.at_most(POINTS, learner.config.num_updates).every
            known[key] = Population(
                bound, bound.hyperparams, example, problem.weights, agents=agents, log_every=every
            )
        return known[key]


def _scores(trained: Trained) -> np.ndarray:
    """Return scores [settings, keys]; NaN where an agent diverged."""
    return np.where(trained.diverged, np.nan, trained.scores)


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
    contenders: Sequence[Contender | Entrant],
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
        ConfigError: before compilation, for invalid contenders or ranges.

    Examples:
        >>> space = {"learning_rate": {"log_uniform": [1e-3, 1e-2]}}
        >>> rivals = [found, *problem.contenders()]
        >>> scores = metaevo.judge(rivals, metaevo.Budget(settings=64), space=space)
        >>> print(scores.verdict())
    """
    entered = [one if isinstance(one, Contender) else one.contender() for one in contenders]
    judgement = Judgement(entered, budget or Budget(), space=space, seed=seed)
    file = None if path is None else Path(path)
    if file is not None and file.exists():
        judgement.restore(file)
    return _finished(judgement, file, "judging", progress=progress)


def run(judgement: Judgement, file: Path, title: str, *, check_stop: Callable[[], None]) -> Scores:
    """Finish a judgement whose scores are kept in a file; those of another one are replaced.

    `check_stop` is called often, and raises to stop.
    """
    with contextlib.suppress(ConfigError):  # of other settings, or of an evolution that went on
        judgement.restore(file)
    return _finished(judgement, file, title, check_stop=check_stop)


def _finished(
    judgement: Judgement,
    file: Path | None,
    title: str,
    *,
    progress: Progress | None = None,
    check_stop: Callable[[], None] | None = None,
) -> Scores:
    total, done = judgement.frames, judgement.frames * judgement.done // judgement.total
    with Bar(
        total=total, initial=done, desc=title, unit="frame", unit_scale=True,
        disable=progress is not None,
        check_stop=check_stop or (lambda: None),
    ) as bar:  # fmt: skip
        bar.stage(f"{title}: {judgement.now}")
        for _ in judgement.steps(progress or bar.update):
            if file is not None:
                judgement.save(file)
            bar.stage(f"{title}: {judgement.now}")
    return judgement.scores()
