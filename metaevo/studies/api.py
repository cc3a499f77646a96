"""Evolution from Python: `metaevo.evolve(problem, ...)`, for anything that is a `MetaProblem`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.config.numbers import check_numbers
from metaevo.evolution.blocks import run_generations
from metaevo.evolution.evolution import Evolution, EvolutionConfig
from metaevo.evolution.problem import MetaParams, MetaProblem, frames_per_evaluation
from metaevo.evolution.strategy import StrategyConfig
from metaevo.runs import checkpoint
from metaevo.runs.progress import Progress
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.learner_problem import ComparisonResult, LearnerProblem
from metaevo.studies.problem import ProblemStudy
from metaevo.studies.settings import EvolutionSettings, RunConfig
from metaevo.studies.several import run_evolutions
from metaevo.studies.spread import members_of
from metaevo.studies.study import Study


@dataclass(frozen=True)
class ProblemSettings:
    """What the config.yaml of such a run holds."""

    strategy: StrategyConfig
    evolution: EvolutionConfig
    run: RunConfig
    is_python: ClassVar[bool] = True
    """a script, not a command, continues a run"""

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)


class Found(NamedTuple):
    """What an evolution has found."""

    meta_params: MetaParams
    """the mean of the strategy, or the best validated candidate of one without a mean"""
    metrics: Sequence[Mapping[str, Any]]
    """a record for each generation, as in metrics.jsonl"""
    path: Path | None
    """of the run's directory, with its report and figures; None without one"""
    frames_per_generation: int = 0
    """environment steps, without validation; 0 if the problem has no frames"""


def evolve(
    problem: MetaProblem,
    *,
    strategy: StrategyConfig | None = None,
    generations: int | None = None,
    evolution: EvolutionConfig | None = None,
    run: RunConfig | None = None,
    evolution_seeds: int | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
) -> Found:
    """Evolve any problem on all devices; with a run directory also durably, with a report.

    Examples:
        >>> class Quadratic:
        ...     def init(self, key):
        ...         return jnp.zeros(3)
        ...
        ...     def evaluate(self, key, meta_params):
        ...         return metaevo.Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})
        >>> found = metaevo.evolve(Quadratic(), generations=100)
        >>> found = metaevo.evolve(Quadratic(), generations=100, run_dir="runs/quadratic")

    Args:
        problem: its meta-parameters are arrays in nested dicts, lists and tuples.
        strategy: the evosax algorithm and its settings.
        generations: how many in all; by default those of `evolution`.
        evolution: how candidates are evaluated and validated.
        run: seed, checkpoints, trackers.
        evolution_seeds: evolve so many times, with the seeds `run.seed`, `run.seed + 1`, ...; what
            is returned is that of the evolution that is best on its validation seeds.
        run_dir: where to keep checkpoints, metrics and a report; by default nothing is written, and
            Ctrl-C ends the evolution as it ends any Python code. A new directory, or with `resume`
            that of the run to continue; a finished run is only read.
        resume: continue from the last checkpoint.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory.
        SystemExit: with code 130 or 143 after SIGINT or SIGTERM, once all is saved.
    """
    config = evolution or EvolutionConfig()
    if generations is not None:
        config = replace(config, generations=generations)
    of_run = run or RunConfig()
    if evolution_seeds is not None:
        of_run = _with_seeds(of_run, evolution_seeds)
    study, settings = _study_of(problem, strategy or StrategyConfig(), config, of_run)
    if run_dir is None:
        if resume:
            raise ConfigError("resume = True: needs run_dir, the directory of the run to continue")
        return _evolve_in_memory(problem, study, settings)
    path = Path(run_dir)
    code = run_evolutions(study, settings, run_dir=path, resume=resume)
    if code:
        raise SystemExit(code)
    directory = RunDirectory.open(path)
    meta_params, about = checkpoint.load_tree(directory.meta_params)
    chosen = about.get("evolution_seed")
    for each in members_of(path, settings):
        if each.seed == chosen:
            directory = each.directory
    frames = settings.strategy.population_size * config.seeds_per_candidate
    frames *= frames_per_evaluation(problem)
    return Found(meta_params, directory.read_metrics("generation"), path, frames)


def compare(
    problem: LearnerProblem,
    found: Found,
    *,
    seeds: int = 128,
    space: Mapping[str, Any] | None = None,
    trials: int = 64,
    tuning_seeds: int | None = 4,
    contenders: Sequence[str] = (),
) -> ComparisonResult:
    """Compare a learned component with tuned hand-written ones on held-out seeds.

    Every contender is tuned on the same budget, over the same space. The seeds of evolution,
    validation, tuning and comparison are disjoint.

    Examples:
        >>> space = {"learning_rate": {"log_uniform": [1e-3, 1e-2]}}
        >>> result = metaevo.compare(problem, found, space=space, trials=16)
        >>> pandas.DataFrame(result.records())

    Args:
        problem: of the evolution.
        found: by the evolution.
        seeds: held-out seeds of every contender.
        space: hyperparameters to tune, each with a list of values or a range; by default none.
        trials: settings that each contender races.
        tuning_seeds: seeds of every setting in the first round; None for as many frames for each
            contender as the evolution used.
        contenders: names of hand-written functions; by default all of the slot.

    Raises:
        ConfigError: for an unknown contender or hyperparameter, or an invalid range.
    """
    frames = len(found.metrics) * found.frames_per_generation
    return problem.compare(
        found.meta_params,
        evolution_frames=frames,
        seeds=seeds,
        space=dict(space or {}),
        trials=trials,
        tuning_seeds=tuning_seeds,
        contenders=list(contenders),
    )


def _study_of(
    problem: Any, strategy: StrategyConfig, evolution: EvolutionConfig, run: RunConfig
) -> tuple[Study, EvolutionSettings]:
    """Return the study of a problem: its own, if it has one, such as a `LearnerProblem`."""
    own = getattr(problem, "study", None)
    if own is not None:
        found: tuple[Study, EvolutionSettings] = own(strategy, evolution, run)
        return found
    settings = ProblemSettings(strategy, evolution, run)
    return ProblemStudy(problem, settings), settings


def _evolve_in_memory(problem: MetaProblem, study: Study, settings: EvolutionSettings) -> Found:
    """Evolve without a run directory; return the best evolution on its validation seeds."""
    study.check()
    config, count = settings.evolution, settings.run.evolution_seeds
    evolution = Evolution(problem, settings.strategy, config, seed=settings.run.seed)
    evolutions: list[Found] = []
    total = count * config.generations
    with Progress(total=total, desc="compiling", unit="gen") as bar:
        for seed in range(settings.run.seed, settings.run.seed + count):
            start = evolution.with_settings(seed, settings.strategy)
            records: list[dict[str, Any]] = []
            blocks = run_generations(
                start, start.start(), keep_chunks=config.chunk_size is not None
            )
            for block in blocks:
                bar.stage("evolving")
                for values in zip(*block.metrics.values(), strict=True):
                    own = dict(zip(block.metrics, values, strict=True))
                    records.append({"generation": len(records), **own})
                    bar.update()
            evolution = block.evolution
            frames = evolution.evaluations * frames_per_evaluation(problem)
            evolutions.append(Found(evolution.result(block.state), records, None, frames))
    key = "fitness_of_mean" if config.validation_seeds else "fitness_mean"
    return max(evolutions, key=lambda found: _last_finite(found.metrics, key))


def _last_finite(records: Sequence[Mapping[str, Any]], key: str) -> float:
    values = [float(each[key]) for each in records if np.isfinite(each[key])]
    return values[-1] if values else -np.inf


def _with_seeds(run: RunConfig, count: int) -> RunConfig:
    return from_dict(RunConfig, {**to_dict(run), "evolution_seeds": count})
