"""A judge of proposals: `metaevo.Judge`."""

import bisect
import functools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from metaevo import statistics
from metaevo.comparison.protocol import task_of
from metaevo.config import ConfigError, files, from_dict, load_yaml, merge, presets, show, to_dict
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.discovery.proposals.archive import Archive, Record, Verdict
from metaevo.discovery.proposals.reading import Label, Proposal, read
from metaevo.discovery.proposals.trials import Trials
from metaevo.evolution.seeding import Purpose
from metaevo.parts import behaviour
from metaevo.parts.program_text import text
from metaevo.parts.rule import LANGUAGES
from metaevo.studies.settings import EvolveSettings, experiment_class

Stage = Callable[[str], object]
PROGRAM = "program"
DEFAULTS: PlainDict = {"evolution": {"seeds_per_candidate": 4}}
_is_same = jax.jit(behaviour.is_same)
POINTS = 1024
"""Inputs on which duplicates compute the same; enough to tell thresholds 2% apart."""
COMPARED = 256
"""Fingerprints are compared in a table of a multiple of this size, as each size is compiled."""
SURVIVORS = 4
"""The best programs of the archive, which are trained on more seeds and get a verdict."""


@dataclass(frozen=True)
class Judged:
    """The answer to a proposal."""

    name: Label
    parent: Label
    expression: str | None
    valid: bool
    """whether it is a program that agents can be trained with"""
    reason: str | None
    """why it is not valid"""
    id: int | None = None
    """number of the program in the archive"""
    duplicate_of: int | None = None
    """id of the earlier program that computes the same; the score is of that one"""
    score: float | None = None
    """interquartile mean over search seeds, higher is better; with several tasks, 0 is random play
    and 1 the tuned reference"""
    interval: tuple[float, float] | None = None
    """95% bootstrap interval of the score"""
    seeds: int = 0
    """number of search seeds behind the score"""
    rank: int | None = None
    """place in the archive by score; 1 is the best"""
    verdict: Verdict | None = field(default=None, repr=False)
    """comparison on held-out seeds, if it is among the best"""

    def record(self) -> PlainDict:
        """Return the answer as a line of `metaevo judge` has it."""
        return asdict(self)


class _Found(NamedTuple):
    proposal: Proposal
    record: Record | None = None
    reason: str | None = None
    is_duplicate: bool = False


class Judge:
    """Scores proposed expressions by training, and archives them.

    Examples:
        >>> with metaevo.Judge("value_loss", "tasks.yaml", state="runs/judge") as judge:
        ...     judge.submit(["error ** 2", {"expression": "c * error", "constants": {"c": 2}}])
    """

    def __init__(
        self,
        slot: str | None,
        tasks: str | Path | PlainMapping | EvolveSettings,
        *,
        state: str | Path | None = None,
        batch: int = 8,
    ):
        """Build the tasks, and open the archive.

        Args:
            slot: value_loss, policy_loss, make_optimizer or schedule.
            tasks: settings of an evolution: a YAML file, the name of a preset, a dict, or the
                settings themselves.
            state: directory of the archive; by default it is not kept.
            batch: number of programs that are trained at once; a batch costs the same if it is not
                full.

        Raises:
            ConfigError: if settings are wrong, or if the archive is of another slot or tasks.
        """
        if isinstance(tasks, EvolveSettings):
            settings = tasks
        else:
            raw = raw_settings(slot, tasks)
            settings = from_dict(experiment_class(raw, None), raw)
        check(settings)
        if batch < 1:
            raise ConfigError(f"batch = {batch}: must be at least 1")
        self.settings, self._config, self._batch = settings, settings.component, batch
        if state is None:
            state = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, state, ignore_errors=True)
        self._trials = Trials(settings, Path(state), batch)
        fingerprint = functools.partial(self._config.fingerprint, points=POINTS)
        self._fingerprint = jax.jit(fingerprint)
        evolution = settings.evolution
        self._seeds, self._more = evolution.seeds_per_candidate, evolution.validation_seeds
        about = {
            "slot": self._config.slot,
            **task_of(settings),
            "component": to_dict(self._config),
            "seeds": [self._seeds, self._more],
            "evaluation": to_dict(settings.evaluation),
        }
        self._archive = Archive(Path(state), about)
        programs = map(self._program, self._archive.records)
        self._outputs = [np.asarray(self._fingerprint(each)) for each in programs]
        self._answered: set[int] = set()
        """ids that this process has answered with: the same program once more is a duplicate"""

    def close(self) -> None:
        """Unlock the archive, so that another judge can continue it; this one is at its end."""
        self._archive.unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def archive(self) -> list[Record]:
        """All programs that were trained, the best one first; those without a score at the end."""
        best = self._archive.best()
        return best + [each for each in self._archive.records if each["score"] is None]

    def submit(
        self,
        proposals: Iterable[str | bytes | PlainMapping] | str | bytes | PlainMapping,
        stage: Stage = lambda text: None,
    ) -> list[Judged]:
        """Judge proposals, and return the answers in the same order.

        Args:
            proposals: expressions; or mappings with `expression` and optionally `constants`,
                `name` and `parent`; or these as a line of JSON, in bytes; or only one of these.
            stage: called with the name of each stage.

        Raises:
            ValueError: if the judge is closed.
        """
        if not self._archive.is_locked:
            raise ValueError("submit: the judge is closed, and another may have its archive")
        if isinstance(proposals, str | bytes | Mapping):
            proposals = [proposals]
        found = [self._look_up(read(self._config, each)) for each in proposals]
        self._train([each for each in self._archive.records if not each["scores"]], stage)
        self._race(stage)
        scores = [-(each["score"] or 0.0) for each in self._archive.best()]
        return [self._answer(each, scores) for each in found]

    def _look_up(self, proposal: Proposal) -> _Found:
        """Look a proposal up in the archive, where a new one begins a record."""
        program = proposal.meta_params
        if program is None:
            return _Found(proposal, reason=proposal.reason)
        written = text(program["codes"][0], program["constants"][0], self._config.names)
        outputs = np.asarray(self._fingerprint(program))
        if not behaviour.is_valid(jnp.asarray(outputs)):
            reason = "expression: its output (of a loss, the slope) is 0 everywhere"
            return _Found(proposal, reason=reason)
        same = self._same_as(outputs)
        if same is not None:
            if same["text"] != written or same["id"] in self._answered:
                return _Found(proposal, same, is_duplicate=True)
            self._answered.add(same["id"])
            return _Found(proposal, same)
        record: Record = {
            "id": len(self._archive.records),
            "name": proposal.name,
            "parent": proposal.parent,
            "expression": proposal.expression or "",
            "constants": dict(proposal.constants),
            "text": written,
            "score": None,
            "interval": None,
            "scores": [],
            "verdict": None,
        }
        self._archive.records.append(record)
        self._outputs.append(outputs)
        self._answered.add(record["id"])
        return _Found(proposal, record)

    def _train(self, records: Sequence[Record], stage: Stage) -> None:
        for start in range(0, len(records), self._batch):
            end = min(start + self._batch, len(records))
            stage(f"training programs {start + 1} to {end} of {len(records)}")
            self._add_scores(records[start : start + self._batch], Purpose.EVOLUTION, self._seeds)

    def _race(self, stage: Stage) -> None:
        """Train the best programs on more seeds until the best ones all were; then judge them."""
        everything = self._seeds + self._more
        while left := [e for e in self._archive.best(SURVIVORS) if len(e["scores"]) < everything]:
            stage(f"training {len(left)} of the best on {self._more} more seeds")
            self._add_scores(left, Purpose.VALIDATION, self._more)
        if not self.settings.evaluation.seeds:
            return
        for record in self._archive.best(SURVIVORS):
            if record["verdict"] is None:
                stage(f"comparing program {record['id']} with tuned hand-written functions")
                record["verdict"] = self._trials.verdict(self._program(record))
                self._archive.write(record)

    def _add_scores(self, records: Sequence[Record], purpose: Purpose, seeds: int) -> None:
        """Train agents of records on more seeds, and write the records."""
        programs = [self._program(each) for each in records]
        found = self._trials.scores(programs, purpose, seeds)
        for record, scores in zip(records, found, strict=True):
            record["scores"] += files.plain(scores)
            values = np.array(record["scores"], np.float64)  # None becomes NaN
            record["score"] = record["interval"] = None
            if np.isfinite(values).all():
                summary = statistics.summarise(values)
                record["score"], record["interval"] = summary.iqm, list(summary.interval)
            self._archive.write(record)

    def _answer(self, found: _Found, scores: Sequence[float]) -> Judged:
        """Return the answer; `scores` has the negative scores in the archive, in order."""
        proposal, record = found.proposal, found.record
        given = proposal.name, proposal.parent, proposal.expression
        if record is None:
            return Judged(*given, valid=False, reason=found.reason)
        number, seeds = record["id"], len(record["scores"])
        duplicate_of = number if found.is_duplicate else None
        if record["score"] is None or record["interval"] is None:
            lost = sum(None in each for each in record["scores"])
            reason = f"{lost} of {seeds} agents diverged or finished no episode"
            return Judged(*given, False, reason, number, duplicate_of, seeds=seeds)
        return Judged(
            *given,
            valid=True,
            reason=None,
            id=number,
            duplicate_of=duplicate_of,
            score=record["score"],
            interval=(record["interval"][0], record["interval"][1]),
            seeds=seeds,
            rank=bisect.bisect_left(scores, -record["score"]) + 1,
            verdict=record["verdict"],
        )

    def _program(self, record: Record) -> PlainMapping:
        program = read(self._config, {key: record[key] for key in ("expression", "constants")})
        if program.meta_params is None:
            raise ConfigError(f"archive: id = {record['id']}: {program.reason}")
        return program.meta_params

    def _same_as(self, outputs: np.ndarray) -> Record | None:
        """Return the first record whose program computes the same."""
        missing = COMPARED - len(self._outputs) % COMPARED  # each size is compiled
        table = np.stack([*self._outputs, *[np.full_like(outputs, np.nan)] * missing])
        same = np.flatnonzero(np.asarray(_is_same(table, outputs)))
        return self._archive.records[int(same[0])] if len(same) else None


def raw_settings(slot: str | None, tasks: str | Path | PlainMapping) -> PlainDict:
    """Return plain settings of `metaevo evolve --evolve program`, with a program in the slot.

    Args:
        slot: the slot; by default the slot in the settings.
        tasks: a file, the name of a preset, or plain settings. If they evolve something else, the
            section component is left out.

    Raises:
        ConfigError: for an unknown slot, or a slot that contradicts the settings.
    """
    given = load_yaml(presets.find(Path(tasks))) if isinstance(tasks, str | Path) else dict(tasks)
    is_program = given.pop("evolve", PROGRAM) == PROGRAM
    component = given.pop("component", None) if is_program else None
    component = component if isinstance(component, dict) else {}
    slot = slot or component.get("slot")
    if slot not in LANGUAGES:
        raise ConfigError(f"slot = {show(slot)}: must be one of {', '.join(LANGUAGES)}")
    if (own := component.get("slot", slot)) != slot:
        raise ConfigError(f"slot = {slot!r}: the settings have component.slot = {show(own)}")
    given = merge(DEFAULTS, given)
    return {**given, "evolve": PROGRAM, "component": {**component, "slot": slot}}


def check(settings: EvolveSettings) -> None:
    """Raise `ConfigError` if a judge cannot use settings of an evolution."""
    if settings.evolve != PROGRAM:
        raise ConfigError(f"evolve = {show(settings.evolve)}: must be {PROGRAM!r}")
    if settings.component.count > 1:
        raise ConfigError("component.hyperparams: must be one, as a proposal is one expression")
