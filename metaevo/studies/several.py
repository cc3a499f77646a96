"""Run several evolutions that differ only in their seeds, and report their spread.

They run one after another in one process, with one compiled program. Each has a separate run
directory (`seed_0`, `seed_1`, ...), so that an interrupted evolution resumes from its checkpoint.
"""

import dataclasses
import sys
from pathlib import Path
from typing import TypeVar

import jax

from metaevo.config import ConfigError
from metaevo.config.plain import PlainDict
from metaevo.evolution.evolution import Evolution
from metaevo.runs.run import Kind, Run, open_run, open_run_inside
from metaevo.studies.conclusion import conclude, present
from metaevo.studies.evolutions import Evolutions, Member, members_of
from metaevo.studies.run import (
    HARMLESS,
    evolve,
    is_evolved,
    is_reported,
    make_evolution,
    resolve,
    run_study,
    start,
)
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.study import Study

S = TypeVar("S", bound=EvolutionSettings)


def run_evolutions(
    study: Study, settings: EvolutionSettings, *, run_dir: Path | None, resume: bool
) -> int:
    """Run `run.evolution_seeds` evolutions; judge and report them together.

    Args:
        study: the study to evolve.
        settings: settings of the evolution.
        run_dir: where to write; by default `runs/<the study's name>/<timestamp>`.
        resume: continue the run in `run_dir` where it was.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: for anything wrong in the settings or in the directory, before compilation.
        DiskError: if the directory can no longer be written.
    """
    count = settings.run.evolution_seeds
    if count == 1:
        return run_study(study, settings, run_dir=run_dir, resume=resume)
    if jax.process_count() > 1:
        raise ConfigError(
            f"run.evolution_seeds = {count}: must be 1 with several processes; start a run for "
            "each seed (--run.seed)"
        )
    study.check()
    kind = Kind(study.name, "evolution", "generation", HARMLESS)
    with open_run(kind, settings, run_dir=run_dir, resume=resume) as run:
        resolved = resolve(study, run, _is_finished)
        if resolved is None:
            generations = len(members_of(run.directory.path, settings)[0].records)
            print(
                f"{run.directory.path} is finished ({count} evolutions, {generations} generations)"
            )
            return 0
        print(f"run directory: {run.directory.path}", file=sys.stderr, flush=True)
        evolution = make_evolution(study, settings, resolved)
        start(run, resolved, evolution)
        run.forget_end()
        with run.working():
            for member in members_of(run.directory.path, settings):
                run.check_stop()
                evolution = _evolve_one(study, run, member, evolution, resolved)
            conclude(study, run, Evolutions(run.directory.path, settings))
        return run.exit_code


def _is_finished(run: Run[EvolutionSettings]) -> bool:
    settings = run.settings
    members = members_of(run.directory.path, settings)
    return is_reported(run) and all(
        is_evolved(each.directory, settings.evolution.generations) for each in members
    )


def _evolve_one(
    study: Study,
    run: Run[EvolutionSettings],
    member: Member,
    evolution: Evolution,
    measured: PlainDict,
) -> Evolution:
    """Finish one evolution; return an `Evolution` that shares its compiled programs."""
    settings = _alone(run.settings, member.seed)
    place, count = member.seed - run.settings.run.seed + 1, run.settings.run.evolution_seeds
    with open_run_inside(run, settings, member.directory.path.name) as own:
        done = is_evolved(own.directory, settings.evolution.generations)
        if own.before is not None and done and own.directory.report_path.exists():
            return evolution
        print(f"evolution {place} of {count}: seed {member.seed}", file=sys.stderr, flush=True)
        study.keep(own.directory, measured)
        start(own, measured, evolution)
        with own.mirrored():
            this = evolution.with_settings(member.seed, settings.strategy)
            evolution = evolve(study, own, this)
            present(study, own)
    if evolution.chunk_size != run.resolved["chunk_size"]:  # less memory than it seemed
        run.resolved["chunk_size"] = evolution.chunk_size
        run.directory.update_resolved({"chunk_size": evolution.chunk_size})
    return evolution


def _alone(settings: S, seed: int) -> S:
    """Return the settings of a single evolution with this seed."""
    run = dataclasses.replace(settings.run, seed=seed, evolution_seeds=1)
    return dataclasses.replace(settings, run=run)
