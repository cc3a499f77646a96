"""Run the evolutions of any study, from the settings to the report.

    main (commands) -> run_evolutions -> blocks (evolution) -> Evolution: ask, evaluate, tell
                                   -> conclude -> study.compare (comparison) -> report

The study defines evaluation and comparison; for parts of a learner see `studies/learner.py`.

Several evolutions, which differ only in their seeds, run one after another with one compiled
program. Each has its own run directory (`seed_0`, `seed_1`, ...), and resumes from its checkpoint.

With several processes, the first one leads: it writes files, and all of the processes share the
computation.
"""

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from metaevo.config import ConfigError
from metaevo.config.files import write_json_atomic
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices, hosts
from metaevo.evolution.blocks import Block, as_text, records_of, run_generations
from metaevo.evolution.evolution import Evolution, State
from metaevo.evolution.trouble import check_first_generation
from metaevo.reports.numbers import number
from metaevo.runs import history
from metaevo.runs.progress import Progress
from metaevo.runs.run import Kind, Run, open_run, open_run_inside
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.signals import StopOnSignal, StopRequestedError
from metaevo.studies.conclusion import conclude, present
from metaevo.studies.evolutions import Evolutions, Member, members_of
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.study import Study

HARMLESS = (
    "evolution.generations", "evolution.block_seconds", "evolution.chunk_size",
    "evolution.num_devices", "evaluation.", "run.checkpoint_every", "run.keep_checkpoints",
    "run.wandb", "run.mlflow", "run.track",
)  # fmt: skip
"""Settings that a resumed run may change."""


def run_evolutions(
    study: Study, settings: EvolutionSettings, *, run_dir: Path | None, resume: bool
) -> int:
    """Run `run.evolution_seeds` evolutions; judge and report them together.

    Args:
        study: the study to evolve.
        settings: settings of the evolution.
        run_dir: where to write; by default `runs/<the study's name>/<timestamp>`.
        resume: continue the run in `run_dir` from its last checkpoint.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: if the settings or the directory are invalid, before compilation.
        DiskError: if the directory can no longer be written.
    """
    count = settings.run.evolution_seeds
    if count > 1 and jax.process_count() > 1:
        raise ConfigError(
            f"run.evolution_seeds = {count}: must be 1 with several processes; start a run for "
            "each seed (--run.seed)"
        )
    hosts.raise_on_all(study.check)
    if not hosts.is_first():
        hosts.raise_on_all(_stand_by)
        return _follow(study, settings)
    kind = Kind(study.name, "evolution", "generation", HARMLESS)
    with contextlib.ExitStack() as stack:
        alone = jax.process_count() == 1
        alive = open_run(kind, settings, run_dir=run_dir, resume=resume, alone=alone)
        run = hosts.raise_on_all(lambda: stack.enter_context(alive))
        return _lead(study, run)


def _lead(study: Study, run: Run[EvolutionSettings]) -> int:
    path, settings = run.directory.path, run.settings
    count = settings.run.evolution_seeds
    members = members_of(path, settings)
    directories = [each.directory for each in members] if count > 1 else [run.directory]
    is_new = run.before is None
    if is_new:  # it first measures the scales of its tasks
        _announce(path)
    resolved = hosts.broadcast_from_first(lambda: _resolve(study, run, directories))
    if resolved is None:
        generations = len(directories[0].read_metrics("generation"))
        evolutions = f"{count} evolutions, " if count > 1 else ""
        print(f"{path} is finished ({evolutions}{generations} generations)")
        return 0
    if not is_new:
        _announce(path)
    evolution = make_evolution(study, settings, resolved)
    _start(run, resolved, evolution)
    with run.working():
        try:
            if count == 1:
                _evolve(study, run, evolution)
            else:
                run.forget_end()
                for member in members:
                    run.check_stop()
                    evolution = _evolve_one(study, run, member, evolution, resolved)
            hosts.disconnect()  # the rest is done by this process alone
            conclude(study, run, Evolutions(path, settings) if count > 1 else None)
        except StopRequestedError:
            hosts.disconnect()
            raise
    return run.exit_code


def _evolve_one(
    study: Study,
    run: Run[EvolutionSettings],
    member: Member,
    evolution: Evolution,
    measured: PlainDict,
) -> Evolution:
    """Finish one evolution; return an `Evolution` with the same compiled programs."""
    settings = replace(
        run.settings, run=replace(run.settings.run, seed=member.seed, evolution_seeds=1)
    )
    place, count = member.seed - run.settings.run.seed + 1, run.settings.run.evolution_seeds
    with open_run_inside(run, settings, member.directory.path.name) as own:
        done = _is_evolved(own.directory, settings.evolution.generations)
        if own.before is not None and done and own.directory.report_path.exists():
            return evolution
        print(f"evolution {place} of {count}: seed {member.seed}", file=sys.stderr, flush=True)
        study.keep(own.directory, measured)
        _start(own, measured, evolution)
        with contextlib.closing(own.trackers):
            this = evolution.with_settings(member.seed, settings.strategy)
            evolution = _evolve(study, own, this)
            present(study, own)
    _keep_chunk_size(run, evolution)  # less memory than it seemed
    return evolution


def _keep_chunk_size(run: Run[EvolutionSettings], evolution: Evolution) -> None:
    if evolution.chunk_size != run.resolved["chunk_size"]:
        run.resolved["chunk_size"] = evolution.chunk_size
        run.directory.update_resolved({"chunk_size": evolution.chunk_size})


def _follow(study: Study, settings: EvolutionSettings) -> int:
    """Run in another process, which receives resolved values from the first one."""
    with StopOnSignal() as stop:
        resolved = hosts.broadcast_from_first(_stand_by)
        if resolved is None:
            return 0
        evolution = make_evolution(study, settings, resolved)
        hosts.raise_on_all(_stand_by)  # the first process reads a checkpoint
        for _ in _blocks(study, evolution, evolution.start(), settings, stop):
            pass
        return stop.exit_code


def _announce(path: Path) -> None:
    print(f"run directory: {path}", file=sys.stderr, flush=True)


def _stand_by() -> Any:
    """Stand by while the first process runs code that can fail."""


def _resolve(
    study: Study, run: Run[EvolutionSettings], evolved: Sequence[RunDirectory]
) -> PlainDict | None:
    """Return the values that a run needs in addition to its settings; None if it is finished.

    It is finished if all generations are in `evolved`, the directories of its evolutions, and its
    report was made with the same evaluation settings.
    """
    if run.before is None:
        measured = study.measure()
        study.keep(run.directory, measured)
        return measured
    same_end = getattr(run.before, "evaluation", None) == getattr(run.settings, "evaluation", None)
    resolved, config = dict(run.resolved), run.settings.evolution
    is_reported = same_end and run.directory.report_path.exists()
    if is_reported and all(_is_evolved(each, config.generations) for each in evolved):
        return None
    before = run.before.evolution.chunk_size
    if config.chunk_size not in (None, before):
        resolved["chunk_size"] = config.chunk_size
    study.keep(run.directory, resolved)
    return resolved


def _is_evolved(directory: RunDirectory, generations: int) -> bool:
    found = [record["generation"] for record in directory.read_metrics("generation")]
    return found == list(range(len(found))) and len(found) >= generations  # else some were lost


def _start(run: Run[EvolutionSettings], resolved: PlainDict, evolution: Evolution) -> None:
    layout = {"num_devices": evolution.num_devices, "chunk_size": evolution.chunk_size}
    for name, size in layout.items():
        if run.resolved.get(name, size) != size:
            warnings.warn(
                f"the run began with {name} = {run.resolved[name]} and goes on with {size}: "
                "results agree up to rounding, not bit for bit",
                stacklevel=2,
            )
    run.start(
        {
            **resolved,
            "num_devices": resolved.get("num_devices", evolution.num_devices),  # at the beginning
            "chunk_size": evolution.chunk_size,
        }
    )


def make_evolution(study: Study, settings: EvolutionSettings, resolved: PlainDict) -> Evolution:
    """Return the same evolution in all processes."""
    config = settings.evolution
    if "chunk_size" in resolved:  # a resumed run keeps its chunk size
        config = replace(config, chunk_size=int(resolved["chunk_size"]))
    problem = study.problem(resolved)
    evolution = Evolution(problem, settings.strategy, config, seed=settings.run.seed)
    return evolution.with_chunk_size(hosts.gather(evolution.chunk_size)[0])


def _evolve(study: Study, run: Run[EvolutionSettings], evolution: Evolution) -> Evolution:
    """Run the remaining generations, and save the result.

    Returns:
        the evolution, possibly with a smaller chunk size.

    Raises:
        StopRequestedError: after a signal, once the state is saved.
    """
    restored = hosts.raise_on_all(lambda: run.restore(evolution.template) if run.before else None)
    state, done, seconds = restored or (evolution.start(), 0, 0.0)
    if restored is None:  # so that a checkpoint precedes all records
        run.save(0, jax.device_get(state), 0.0)
        history.record(run.directory.path, 0, evolution.strategy.best(state.strategy))
    total = run.settings.evolution.generations
    with Progress(total=total, initial=done, desc="compiling", unit="gen") as bar:
        logbook = _Logbook(run, bar, total, time.monotonic() - seconds)
        for block in _blocks(study, evolution, state, run.settings, run.stop):
            logbook.add(block)
    if block.done < total:
        logbook.save(block.state)
        raise StopRequestedError
    study.save(run.directory, block.evolution.result(block.state), block.done)
    if others := block.evolution.others(block.state):
        write_json_atomic(run.directory.others_path, others)
    return block.evolution


def _blocks(
    study: Study,
    evolution: Evolution,
    start: State,
    settings: EvolutionSettings,
    stop: StopOnSignal,
) -> Iterator[Block]:
    """Yield the remaining generations in blocks, identical in all processes."""
    for block in run_generations(
        evolution,
        start,
        every=settings.run.checkpoint_every,
        keep_chunks=settings.evolution.chunk_size is not None,
        stop=stop,
    ):
        check_first_generation(block, study.name)
        yield block


class _Logbook:
    """Logs generations, saves checkpoints, and shows how far evolution is."""

    def __init__(self, run: Run[EvolutionSettings], bar: Any, total: int, started: float):
        self.run, self.bar, self.total, self.started = run, bar, total, started
        self.saved = bar.n
        self.frames = 0
        if records := run.directory.read_metrics("generation"):
            self.frames = records[-1]["frames"]
        self.of_mean = "-"

    def add(self, block: Block) -> None:
        """Show the layout of a program that was just compiled, and log the generations."""
        if block.bytes_needed is not None:
            self._show_layout(block.evolution, block.bytes_needed)
        if block.metrics:
            self._log(block)

    def _show_layout(self, evolution: Evolution, bytes_needed: int) -> None:
        self.bar.stage("evolving")
        _keep_chunk_size(self.run, evolution)
        processes = jax.process_count()
        tqdm.write(
            f"{self.run.directory.path}: {evolution.population_size} candidates x "
            f"{evolution.config.seeds_per_candidate} seeds on {evolution.num_devices} devices"
            f"{f' of {processes} processes' if processes > 1 else ''}, "
            f"{evolution.chunk_size} agents at once on each, about "
            f"{as_text(bytes_needed)} a device",
            file=sys.stderr,
        )

    def _log(self, block: Block) -> None:
        since = time.monotonic() - self.started - block.seconds
        records = records_of(block, self.frames)
        for index, record in enumerate(records, start=1):
            seconds = round(since + block.seconds * index / len(records), 3)
            self.run.log({"kind": "generation", "seconds": seconds, **record})
        found = block.evolution.result(block.state)
        history.record(self.run.directory.path, block.done, found)
        self._show(block, len(records), records[-1]["frames"] - self.frames)
        self.frames = records[-1]["frames"]
        if block.done % self.run.settings.run.checkpoint_every == 0 or block.done == self.total:
            self.save(block.state)

    def save(self, state: State) -> None:
        """Save a checkpoint, unless the last one is as new."""
        copy = jax.device_get(devices.first(state))
        done = int(copy.generation)
        if done > self.saved:
            self.run.save(done, copy, time.monotonic() - self.started)
            self.saved = done

    def _show(self, block: Block, length: int, frames: int) -> None:
        metrics = block.metrics
        of_mean = metrics["fitness_of_mean"][np.isfinite(metrics["fitness_of_mean"])]
        if len(of_mean):
            self.of_mean = number(float(of_mean[-1]))
        rate = f", {frames / block.seconds:,.0f} frames/s" if frames else ""
        self.bar.set_postfix_str(
            f"fitness: found {self.of_mean}, candidates "
            f"{number(float(metrics['fitness_mean'][-1]))}, best "
            f"{number(float(metrics['fitness_best'][-1]))}{rate}",
            refresh=False,
        )
        self.bar.update(length)
        if int(metrics["diverged"][-1]) == block.evolution.population_size:
            tqdm.write("warning: every candidate of the last generation failed", file=sys.stderr)
