"""What a run or a judgement would compute, for `--dry-run`."""

from collections.abc import Mapping

import jax

from metaevo.evolution.loop import Evolution
from metaevo.judging.judge import Judgement
from metaevo.parts.part import LEARNED
from metaevo.reports.page import Table
from metaevo.studies.study import TITLES, Study


def plan(study: Study) -> Table:
    """Return what a run would compute; raises `ConfigError` as `run_evolutions` does."""
    study.check()
    problem, settings = study.problem, study.settings
    config, count = settings.evolution, settings.run.evolution_seeds
    evolution = Evolution(problem, study.strategy, config)
    candidates, seeds = evolution.population_size, config.seeds_per_candidate
    tasks = problem.tasks_per_generation
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    judged = {f"{LEARNED} {number}": shapes for number in range(count)}
    rows = [
        ["evolved", problem.title],
        ["evolutions", f"{count} of {config.generations:,} generations"],
        ["agents of a generation", f"{candidates:,} candidates x {seeds} seeds x {tasks} tasks"],
        ["agents at once", f"{evolution.chunk_size} on each of {evolution.num_devices} devices"],
        ["frames, without validation", f"{count * config.generations * evolution.frames:,}"],
        *planned(study.judgements(judged)),
    ]
    return Table("Plan", ["", ""], rows)


def planned(judgements: Mapping[str, Judgement]) -> list[list[str]]:
    """Return rows of a plan: the size of each judgement."""
    return [
        [
            TITLES.get(name, name),
            f"{len(each.contenders)} contenders x {each.budget.agents:,} agents on "
            f"{len(each.tasks)} tasks",
        ]
        for name, each in judgements.items()
    ]
