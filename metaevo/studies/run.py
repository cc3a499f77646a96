"""Run the evolutions of any study, from the settings to the report.

Several evolutions, which differ only in their seeds, run one after another with one compiled
program. Each has its own run directory (`seed_0`, `seed_1`, ...), and resumes from its checkpoint.

With several processes, the first one leads: it writes files, and all of the processes share the
computation.
"""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from metaevo.config import ConfigError, PlainDict
from metaevo.config.files import write_json_atomic
from metaevo.evolution import devices
from metaevo.evolution.loop import Block, Evolution, State
from metaevo.evolution.problem import MetaParams
from metaevo.parts.part import LEARNED
from metaevo.reports.page import Table, cell
from metaevo.runs import checkpoint
from metaevo.runs.run import Kind, Run, open_run
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.terminal import Progress, StopOnSignal, StopRequestedError
from metaevo.studies.conclusion import conclude
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.study import Study

HARMLESS = (
    "evolution.generations", "evolution.block_size", "evolution.chunk_size",
    "evolution.num_devices",
)  # fmt: skip
"""Settings that a resumed run may change, too."""


def run_evolutions(study: Study, *, run_dir: Path | None, resume: bool) -> int:
    """Run `run.evolution_seeds` evolutions; judge and report them together.

    Returns:
        the exit code: 0, or 130 / 143 after SIGINT / SIGTERM.

    Raises:
        ConfigError: if the settings or the directory are invalid, before compilation.
        DiskError: if the directory can no longer be written.
    """
    settings = study.settings
    count = settings.run.evolution_seeds
    if count > 1 and jax.process_count() > 1:
        raise ConfigError(
            f"run.evolution_seeds = {count}: must be 1 with several processes; start a run for "
            "each seed (--run.seed)"
        )
    devices.raise_on_all(study.check)
    if not devices.is_first():
        devices.raise_on_all(_stand_by)
        return _follow(study)
    kind = Kind(study.name, "evolution", HARMLESS)
    with contextlib.ExitStack() as stack:
        alone = jax.process_count() == 1
        alive = open_run(kind, settings, run_dir=run_dir, resume=resume, alone=alone)
        run = devices.raise_on_all(lambda: stack.enter_context(alive))
        _lead(study, run)
    return run.stop.exit_code


def plan(study: Study) -> Table:
    """Return what a run would compute; raises `ConfigError` as `run_evolutions` does."""
    from metaevo.studies.changed import planned

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


def _lead(study: Study, run: Run[EvolutionSettings]) -> None:
    path, config = run.directory.path, run.settings.run
    several, evolved = config.evolution_seeds > 1, [run.directory]
    if several:
        evolved = [RunDirectory(path / f"seed_{seed}") for seed in config.seeds]
    print(f"run directory: {path}", file=sys.stderr, flush=True)
    resolved = devices.broadcast_from_first(lambda: _resolve(study, run, evolved))
    if resolved is None:
        generations = len(evolved[0].read_metrics("generation"))
        evolutions = f"{len(evolved)} evolutions, " if several else ""
        print(f"{path} is finished ({evolutions}{generations} generations)")
        return
    evolution = make_evolution(study, resolved)
    _start(run, resolved, evolution)

    def evolve_one(own: Run[EvolutionSettings]) -> None:
        """Finish one evolution of several, which share the compiled program."""
        study.keep(own.directory, resolved)
        _start(own, resolved, evolution)
        _evolve(study, own, evolution, run.directory)
        _keep_chunk_size(run, evolution)  # less memory than it seemed

    try:
        if several:
            from metaevo.studies.evolutions import evolve_all

            evolve_all(run, evolve_one)
        else:
            _evolve(study, run, evolution, run.directory)
        devices.disconnect()  # the rest is done by this process alone
        conclude(study, run)
    except StopRequestedError:
        devices.disconnect()
        raise


def _keep_chunk_size(run: Run[EvolutionSettings], evolution: Evolution) -> None:
    if evolution.chunk_size != run.resolved["chunk_size"]:
        run.resolved["chunk_size"] = evolution.chunk_size
        run.directory.update_resolved({"chunk_size": evolution.chunk_size})


def _follow(study: Study) -> int:
    """Run in another process, which receives resolved values from the first one."""
    with StopOnSignal() as stop:
        resolved = devices.broadcast_from_first(_stand_by)
        if resolved is None:
            return 0
        evolution = make_evolution(study, resolved)
        devices.raise_on_all(_stand_by)  # the first process reads a checkpoint
        for _ in _blocks(study, evolution, evolution.start(study.settings.run.seed), 0, stop):
            pass
        return stop.exit_code


def _stand_by() -> Any:
    """Stand by while the first process runs code that can fail."""


def _resolve(
    study: Study, run: Run[EvolutionSettings], evolved: Sequence[RunDirectory]
) -> PlainDict | None:
    """Return the values that a run needs in addition to its settings; None if it is finished.

    It is finished if all generations are in `evolved`, the directories of its evolutions, and its
    report was made with the same evaluation settings.
    """
    if run.saved is None:
        alone = jax.process_count() == 1  # otherwise the other processes wait
        measured = study.measure(run.stop.check) if alone else study.measure()
        study.keep(run.directory, measured)
        return measured
    from metaevo.runs.finding import has_evolved

    resolved, config = dict(run.resolved), run.settings.evolution
    is_evolved = all(has_evolved(each, config.generations) for each in evolved)
    if is_evolved and run.is_over("evaluation."):
        return None
    if config.chunk_size is not None and "evolution.chunk_size" in run.changed:
        resolved.pop("chunk_size", None)
    study.keep(run.directory, resolved)
    return resolved


def _start(run: Run[EvolutionSettings], resolved: PlainDict, evolution: Evolution) -> None:
    run.start(
        {**resolved, "chunk_size": evolution.chunk_size},
        chunk_size=evolution.chunk_size,
        num_devices=evolution.num_devices,
    )


def make_evolution(study: Study, resolved: PlainDict) -> Evolution:
    """Return the same evolution in all processes."""
    problem, config = study.use(resolved), study.settings.evolution
    evolution = Evolution(problem, study.strategy, config)
    chunk_size = resolved.get("chunk_size", evolution.chunk_size)  # which a resumed run keeps
    evolution.use_chunks_of(devices.agree(chunk_size))
    return evolution


def _evolve(
    study: Study, run: Run[EvolutionSettings], evolution: Evolution, judged: RunDirectory
) -> None:
    """Run the remaining generations, and save the result; `judged` is the run with the report.

    Raises:
        StopRequestedError: after a signal, once the state is saved.
    """
    restored = devices.raise_on_all(lambda: run.restore(evolution.template))
    state, done, seconds = restored or (evolution.start(run.settings.run.seed), 0, 0.0)
    if restored is None:  # so that a checkpoint precedes all records
        run.save(0, jax.device_get(state), 0.0)
        start = evolution.strategy.bind(evolution.problem).best(state.search)
        checkpoint.record(run.directory.path, 0, start)
    total = run.settings.evolution.generations
    if done < total:  # what was judged is of an earlier end
        judged.scores_path.unlink(missing_ok=True)
        judged.unseen_path.unlink(missing_ok=True)
    with Progress(total=total, initial=done, desc="compiling", unit="gen") as bar:
        logbook = _Logbook(run, evolution, bar, time.monotonic() - seconds)
        for block in _blocks(study, evolution, state, logbook.frames, run.stop):
            found = evolution.result(block.state)
            logbook.add(block, found)
            others = evolution.others(block.state) if block.done == total else None
            if others:  # before the result: an evolution with a result is not continued
                write_json_atomic(run.directory.others_path, others)
            study.save(run.directory, found, block.done)  # which loads before the end, too
    if block.done < total:
        raise StopRequestedError


def _blocks(
    study: Study, evolution: Evolution, state: State, frames: int, stop: StopOnSignal
) -> Iterator[Block]:
    """Yield the remaining generations in blocks, in all processes alike, until one should stop."""
    for block in evolution.blocks(state, frames=frames):
        check_first_generation(block, evolution.population_size, study.name)
        yield block
        requested = devices.agree_to_stop(stop.requested)
        if requested is not None:  # a signal may also have come since, for the next block
            stop.requested = requested
            return


class _Logbook:
    """Logs generations, saves checkpoints, and shows how far evolution is."""

    def __init__(self, run: Run[EvolutionSettings], evolution: Evolution, bar: Any, started: float):
        self.run, self.evolution, self.bar, self.started = run, evolution, bar, started
        records = run.directory.read_metrics("generation")
        self.frames = records[-1]["frames"] if records else 0
        self.bytes_shown: int | None = None
        self.found = "-"

    def add(self, block: Block, found: MetaParams) -> None:
        """Log the generations of a block and what was found, and save a checkpoint."""
        if self.evolution.bytes_needed != self.bytes_shown:  # a program was just compiled
            self.bar.stage("evolving")
            _keep_chunk_size(self.run, self.evolution)
            self.bytes_shown = self.evolution.bytes_needed
            tqdm.write(f"{self.run.directory.path}: {_layout(self.evolution)}", file=sys.stderr)
        if not block.records:
            return
        since = time.monotonic() - self.started - block.seconds
        for index, record in enumerate(block.records, start=1):
            seconds = round(since + block.seconds * index / len(block.records), 3)
            self.run.log({"kind": "generation", "seconds": seconds, **record})
        checkpoint.record(self.run.directory.path, block.done, found)
        self._show(block)
        self.frames = block.records[-1]["frames"]
        copy = jax.device_get(devices.first(block.state))
        self.run.save(block.done, copy, time.monotonic() - self.started)

    def _show(self, block: Block) -> None:
        last = block.records[-1]
        for each in block.records:
            if np.isfinite(each["fitness_of_mean"]):
                self.found = cell(float(each["fitness_of_mean"]))
        frames = last["frames"] - self.frames
        rate = f", {frames / block.seconds:,.0f} frames/s" if frames else ""
        mean, best = cell(float(last["fitness_mean"])), cell(float(last["fitness_best"]))
        text = f"fitness: found {self.found}, candidates {mean}, best {best}{rate}"
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(len(block.records))
        if int(last["diverged"]) == self.evolution.population_size:
            tqdm.write("warning: every candidate of the last generation failed", file=sys.stderr)


def _layout(evolution: Evolution) -> str:
    processes = jax.process_count()
    of_all = f" of {processes} processes" if processes > 1 else ""
    return (
        f"{evolution.population_size} candidates x {evolution.config.seeds_per_candidate} seeds on "
        f"{evolution.num_devices} devices{of_all}, {evolution.chunk_size} agents at once on each, "
        f"about {devices.as_text(evolution.bytes_needed or 0)} a device"
    )


def check_first_generation(block: Block, population_size: int, name: str) -> None:
    """Raise `ConfigError`, in all processes, if every candidate of the first generation failed.

    Later generations may fail, for instance on an unlucky draw of a task. `name` is the study's.
    """
    first = block.records[0] if block.records else {}
    if first.get("generation") == 0 and first["diverged"] == population_size:
        raise ConfigError(
            f"{name}: all candidates of the first generation scored NaN or infinity; look for "
            "operations such as the logarithm of a negative number, and start a run in another "
            "directory"
        )
