"""Evolve any `MetaProblem` from Python with `metaevo.evolve(problem, ...)`."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, PlainDict, PlainMapping, files, from_dict, show, to_dict
from metaevo.evolution.evosax import GENETIC_PROGRAMMING, OWN, StrategyConfig
from metaevo.evolution.loop import Evolution, EvolutionConfig
from metaevo.evolution.problem import (
    Contender,
    MetaParams,
    MetaProblem,
    frames_per_generation,
)
from metaevo.evolution.strategy import Strategy
from metaevo.parts.part import LEARNED, Parts
from metaevo.reports.plots import draw_fitness, save_figure
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.terminal import Progress
from metaevo.studies.conclusion import trouble
from metaevo.studies.evolutions import validation_of
from metaevo.studies.problems import ProblemSettings
from metaevo.studies.run import check_first_generation, run_evolutions
from metaevo.studies.settings import RunConfig
from metaevo.studies.study import Study
from metaevo.tasks.problem import LearnerProblem


@dataclass(frozen=True, repr=False)
class Found:
    """Result of `metaevo.evolve`.

    Examples:
        >>> value_loss, meta_params = found.part("value_loss")
        >>> found.save("runs/found")
    """

    meta_params: MetaParams
    """the mean of the strategy, or the best validated candidate of one without a mean"""
    metrics: Sequence[PlainMapping]
    """a record for each generation, as in metrics.jsonl"""
    path: Path | None
    """the run directory, with a report and figures; None without one"""
    frames_per_generation: int
    """environment steps, without validation; 0 if the problem has no frames, and a mean where they
    depend on the drawn tasks"""
    study: Study

    def __repr__(self) -> str:
        """Show the number of generations, the last mean fitness of candidates and the path."""
        fitness = self.metrics[-1]["fitness_mean"] if self.metrics else None
        return f"Found(generations={len(self.metrics)}, fitness_mean={fitness}, path={self.path})"

    def part(self, slot: str) -> tuple[Callable[..., Any], MetaParams]:
        """Return the function that fills a slot of a learner, and its meta-parameters.

        Raises:
            ConfigError: if the evolution found no part for the slot.
        """
        parts = self.problem.parts if isinstance(self.problem, LearnerProblem) else Parts({})
        if slot in parts.by_slot:
            return parts.by_slot[slot].apply, parts.of(self.meta_params, slot)
        raise ConfigError(f"{slot}: {self.study.name} evolved no part for this slot")

    def contender(
        self, name: str = LEARNED, problem: MetaProblem | None = None, group: str = LEARNED
    ) -> Contender:
        """Return what was found as a contender of `metaevo.judge`.

        Args:
            name: of the contender.
            problem: the same on other tasks; by default the problem that was evolved.
            group: the discovery, of which there may be several evolutions.
        """
        if problem is None:
            problem = self.problem
        return Contender(name, problem, self.meta_params, group)

    @property
    def problem(self) -> MetaProblem:
        """The problem that was evolved."""
        return self.study.problem

    def table(self) -> list[PlainDict]:
        """Return a record for each generation."""
        return [dict(record) for record in self.metrics]

    def save(self, path: str | Path) -> None:
        """Write the meta-parameters, and the code of a part of your own, for `metaevo.load`.

        Args:
            path: a new or empty directory.

        Raises:
            ConfigError: if the directory is not empty or cannot be written.
        """
        directory = RunDirectory.create(Path(path), self.study.name)
        if any(directory.path.iterdir()):
            raise ConfigError(f"path = {str(path)!r}: is not empty; save to a new directory")
        self.study.save(directory, self.meta_params, len(self.metrics))
        self.study.keep(directory, {})

    def draw(self, folder: str | Path) -> list[Path]:
        """Draw the fitness over the generations and what was evolved; return the PNG files."""
        figures = files.make_folder(folder)
        if len(self.metrics):
            save_figure(draw_fitness({"": self.metrics}), figures / "fitness.png")
        self.study.draw(self.meta_params, figures)
        return sorted(figures.glob("*.png"))


def evolve(
    problem: MetaProblem,
    *,
    strategy: StrategyConfig | PlainMapping | Strategy | None = None,
    generations: int | None = None,
    evolution: EvolutionConfig | PlainMapping | None = None,
    run: RunConfig | PlainMapping | None = None,
    evolution_seeds: int | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
) -> Found:
    """Evolve any problem on all devices; a run directory adds checkpoints and a report.

    Examples:
        >>> class Quadratic(metaevo.MetaProblem):
        ...     def init(self, key):
        ...         return jnp.zeros(3)
        ...
        ...     def evaluate(self, key, meta_params, task):
        ...         return metaevo.Evaluation(-jnp.sum((meta_params - 1.0) ** 2), {})
        >>> found = metaevo.evolve(Quadratic(), generations=100)
        >>> found = metaevo.evolve(Quadratic(), generations=100, run_dir="runs/quadratic")

    Args:
        problem: its meta-parameters are arrays in nested dicts, lists and tuples.
        strategy: an evosax algorithm and its settings, or a strategy of your own. Settings are
            objects or, as in a YAML file, dicts. By default Open_ES, or genetic programming if the
            problem has programs.
        generations: total number; by default `evolution.generations`.
        evolution: how candidates are evaluated and validated.
        run: seed, checkpoints, trackers.
        evolution_seeds: number of evolutions, with the seeds `run.seed`, `run.seed + 1`, ...; the
            evolution that is best on its validation seeds is returned.
        run_dir: where to keep checkpoints, metrics and a report; by default no files are written,
            and Ctrl-C ends the evolution like any Python code. It must be a new directory or, with
            `resume`, the directory of the run to continue; a finished run is only read.
        resume: continue from the last checkpoint.

    Raises:
        ConfigError: if the settings or the directory are invalid, or all candidates of the first
            generation failed.
        KeyboardInterrupt: after SIGINT or SIGTERM, once everything is saved.
    """
    own = None if strategy is None or isinstance(strategy, StrategyConfig | Mapping) else strategy
    of_evolution = _plain(EvolutionConfig, evolution, "evolution")
    of_run = _plain(RunConfig, run, "run")
    if generations is not None:
        of_evolution["generations"] = generations
    if evolution_seeds is not None:
        of_run["evolution_seeds"] = evolution_seeds
    of_strategy = {} if own is not None else _plain(StrategyConfig, strategy, "strategy")
    if own is None and isinstance(problem, MetaProblem) and problem.programs is not None:
        of_strategy.setdefault("algorithm", GENETIC_PROGRAMMING)
    raw = {"strategy": of_strategy, "evolution": of_evolution, "run": of_run}
    if isinstance(problem, LearnerProblem):  # whose parts are judged by `metaevo.judge`
        raw["evaluation"] = {"seeds": 0}
    settings = from_dict(ProblemSettings, raw)
    if own is not None:
        settings = replace(settings, strategy=_config_of(own))
    study = Study(problem, settings, own)
    if run_dir is None:
        if resume:
            raise ConfigError("resume = True: needs run_dir, the directory of the run to continue")
        return _evolve_in_memory(study)
    path = Path(run_dir)
    if run_evolutions(study, run_dir=path, resume=resume):
        raise KeyboardInterrupt
    directory = RunDirectory.open(path)
    meta_params, about = checkpoint.load_tree(directory.meta_params)
    if (chosen := about.get("evolution_seed")) is not None:
        directory = RunDirectory(path / f"seed_{chosen}")
    agents = settings.strategy.population_size * settings.evolution.seeds_per_candidate
    frames = agents * frames_per_generation(study.use(directory.read_config()["resolved"]))
    return Found(meta_params, directory.read_metrics("generation"), path, frames, study)


def _config_of(strategy: Any) -> StrategyConfig:
    """Return the settings of a strategy that a caller passes, as config.yaml records them."""
    if not isinstance(strategy, Strategy):
        hint = f", such as {strategy.__name__}(), not a class" if isinstance(strategy, type) else ""
        raise ConfigError(
            f"strategy = {show(strategy)}: must be an object that derives from "
            f"metaevo.Strategy{hint}"
        )
    kind = type(strategy)
    own = {each.name: getattr(strategy, each.name) for each in fields(kind)}
    place = f"{kind.__module__}:{kind.__qualname__}"
    known = {each: name for name, each in OWN.items()}
    named = {each.name for each in fields(StrategyConfig)} - {"settings", "algorithm"}
    return StrategyConfig(
        **{key: own.pop(key) for key in sorted(named & own.keys())},
        algorithm=known.get(place, place),
        settings={key: each for key, each in own.items() if isinstance(each, bool | int | float)},
    )


def _plain(cls: type, given: Any, name: str) -> PlainDict:
    """Return a section of settings in the form of a YAML file; by default without changes."""
    if not (given is None or isinstance(given, cls | Mapping)):
        raise ConfigError(f"{name} = {show(given)}: must be a metaevo.{cls.__name__} or a dict")
    return {} if given is None else dict(to_dict(given))


def _evolve_in_memory(study: Study) -> Found:
    """Evolve without a run directory; return the best evolution on its validation seeds."""
    study.check()
    problem = study.use(study.measure())
    config, seeds = study.settings.evolution, study.settings.run.seeds
    evolution = Evolution(problem, study.strategy, config)
    evolutions: list[Found] = []
    with Progress(total=len(seeds) * config.generations, desc="compiling", unit="gen") as bar:
        for seed in seeds:
            records: list[PlainMapping] = []
            for block in evolution.blocks(evolution.start(seed)):
                check_first_generation(block, evolution.population_size, study.name)
                bar.stage("evolving")
                records += block.records
                bar.update(len(block.records))
            result = evolution.result(block.state)
            if lesson := trouble(records, evolution.population_size):
                warnings.warn(lesson, stacklevel=3)
            evolutions.append(Found(result, records, None, evolution.frames, study))
    return max(evolutions, key=lambda found: validation_of(found.metrics, study))
