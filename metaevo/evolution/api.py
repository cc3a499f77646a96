"""Evolution from Python: `metaevo.evolve(problem, ...)`, for anything that is a `MetaProblem`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.config.numbers import check_numbers
from metaevo.evolution.run import run_study
from metaevo.outer_loop.evolution import EvolutionConfig
from metaevo.outer_loop.problem import MetaParams, MetaProblem
from metaevo.outer_loop.strategy import StrategyConfig
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.problem import ProblemStudy
from metaevo.studies.settings import RunConfig


@dataclass(frozen=True)
class ProblemSettings:
    """What the config.yaml of such a run holds."""

    strategy: StrategyConfig
    evolution: EvolutionConfig
    run: RunConfig

    def __post_init__(self) -> None:
        """Refuse numbers that no device can represent."""
        check_numbers(self)


class Found(NamedTuple):
    """What an evolution has found."""

    meta_params: MetaParams
    """the mean of the strategy, or the best validated candidate of one without a mean"""
    metrics: list[dict[str, Any]]
    """a record for each generation, as in metrics.jsonl"""
    path: Path
    """of the run's directory, with its report and figures"""


def evolve(
    problem: MetaProblem,
    *,
    strategy: StrategyConfig | None = None,
    generations: int | None = None,
    evolution: EvolutionConfig | None = None,
    run: RunConfig | None = None,
    run_dir: str | Path,
    resume: bool = False,
) -> Found:
    """Evolve any problem, with devices, checkpoints, resume, signals, metrics and a report.

    Example:
        >>> class Quadratic:
        ...     def init(self, key):
        ...         return jnp.zeros(3)
        ...
        ...     def evaluate(self, key, meta_params):
        ...         return metaevo.Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})
        >>> found = metaevo.evolve(Quadratic(), generations=100, run_dir="runs/quadratic")

    Args:
        problem: its meta-parameters are arrays in nested dicts, lists and tuples.
        strategy: the evosax algorithm and its settings.
        generations: how many in all; by default those of `evolution`.
        evolution: how candidates are evaluated and validated.
        run: seed, checkpoints, trackers.
        run_dir: a new directory, or with `resume` that of the run to continue; one that is
            finished is only read.
        resume: continue from the last checkpoint.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory.
        SystemExit: with code 130 or 143 after SIGINT or SIGTERM, once all is saved.
    """
    config = evolution or EvolutionConfig()
    if generations is not None:
        config = replace(config, generations=generations)
    settings = ProblemSettings(strategy or StrategyConfig(), config, run or RunConfig())
    path = Path(run_dir)
    code = run_study(ProblemStudy(problem, settings), settings, run_dir=path, resume=resume)
    if code:
        raise SystemExit(code)
    directory = RunDirectory.open(path)
    meta_params, _ = checkpoint.load_tree(directory.meta_params)
    return Found(meta_params, directory.read_metrics("generation"), path)
