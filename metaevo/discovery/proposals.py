"""A judge of proposed expressions: `metaevo.Judge`.

    {"expression": "-minimum(ratio, 1 + c) * advantage", "constants": {"c": 0.2}, "name": "a"}

A proposal is data: its expression is parsed into a program, and nothing is executed. A new program
is judged untuned on a few search seeds; the best one of the archive then is judged like an evolved
part: tuned, against the tuned hand-written functions.
"""

import codecs
import functools
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired, Self

import jax
import numpy as np
from typing_extensions import TypedDict

from metaevo.config import ConfigError, files, from_dict, load_yaml, merge, presets, to_dict
from metaevo.config.checks import Number, Text, check
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.discovery.archive import Archive, Judged, Label
from metaevo.evolution.problem import Contender
from metaevo.evolution.seeding import Purpose
from metaevo.judging.budget import Budget
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts import behaviour
from metaevo.parts.program import Program
from metaevo.runs.progress import Progress
from metaevo.studies.learner import problem_of
from metaevo.studies.settings import experiment_class, judged_on

Given = str | bytes | PlainMapping
PROGRAM = "program"
DEFAULTS: PlainDict = {"evolution": {"seeds_per_candidate": 16}}
MAX_LINE = 2**16
"""Maximum number of bytes of a line."""
POINTS = 1024
"""Inputs on which duplicates compute the same; enough to tell thresholds 2% apart."""
_is_same = jax.jit(behaviour.is_same)


class _Line(TypedDict):
    expression: Text
    constants: NotRequired[dict[str, Number] | None]
    name: NotRequired[Label]
    parent: NotRequired[Label]


def read(language: Program, given: Given) -> tuple[Judged, PlainMapping]:
    """Return a proposal and its program, which is empty if the proposal is not valid.

    Args:
        language: the part.
        given: an expression, a line of JSON (bytes) or its content, of which other keys than those
            of a proposal are ignored.
    """
    proposal = Judged()
    try:
        data: Any = {"expression": given} if isinstance(given, str) else given
        if isinstance(data, bytes):
            if len(data) > MAX_LINE:
                raise ConfigError(f"line: must have at most {MAX_LINE} bytes")
            data = files.parse_json(data.removeprefix(codecs.BOM_UTF8), "line")
        line = check(_Line, data, "proposal")
        label, parent, numbers = line.get("name"), line.get("parent"), line.get("constants") or {}
        proposal = Judged(label, parent, line["expression"], numbers)
        codes, constants = language.read(line["expression"], numbers)
    except ValueError as error:
        return replace(proposal, reason=str(error)), {}
    program = {"codes": codes[np.newaxis], "constants": constants[np.newaxis]}
    return replace(proposal, text=language.text(program)), program


class Judge:
    """Scores proposed expressions by training, and archives them.

    Examples:
        >>> with metaevo.Judge("value_loss", "tasks.yaml", state="runs/judge") as judge:
        ...     judge.submit(["error ** 2", {"expression": "c * error", "constants": {"c": 2}}])
    """

    def __init__(
        self,
        slot: str | None,
        tasks: str | Path | PlainMapping,
        *,
        state: str | Path | None = None,
    ):
        """Build the tasks, and open the archive.

        Args:
            slot: value_loss, policy_loss, make_optimizer or schedule; by default the settings'.
            tasks: settings of an evolution: a YAML file, the name of a preset, or a dict.
            state: directory of the archive; by default it is not kept.

        Raises:
            ConfigError: if settings are wrong, or if the archive is of another slot or tasks.
        """
        raw = raw_settings(slot, tasks)
        settings = from_dict(experiment_class(raw, None), raw)
        self.settings, self._part = settings, settings.component
        if self._part.count > 1:
            raise ConfigError("component.hyperparams: must be one, as a proposal is one expression")
        config, self._problem = settings.evaluation, problem_of(settings)
        try:
            self._rivals = self._problem.contenders(config.contenders, config.own)
            if config.seeds:
                self._tuned(self._rivals)
        except ConfigError as error:
            raise ConfigError(f"evaluation.{error}") from None
        if state is None:
            state = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, state, ignore_errors=True)
        about = {
            "component": to_dict(self._part),
            "evaluation": to_dict(replace(config, unseen={})),
            "evolution": {"seeds_per_candidate": settings.evolution.seeds_per_candidate},
        }
        self._archive = Archive(Path(state), judged_on(settings) | about)
        self._fingerprint = jax.jit(functools.partial(self._part.fingerprint, points=POINTS))
        programs = range(len(self._archive.programs))
        self._outputs = [self._fingerprint(self._program(each)) for each in programs]

    def close(self) -> None:
        """Unlock the archive, so that another judge can continue it; this one is at its end."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def archive(self) -> list[Judged]:
        """All programs that were trained, the best one first; those without a score at the end."""
        return self._archive.ranked()

    def submit(self, proposals: Iterable[Given]) -> list[Judged]:
        """Judge proposals, and return the answers in the same order.

        Args:
            proposals: expressions; or mappings with `expression` and optionally `constants`,
                `name` and `parent`; or these as a line of JSON, in bytes.

        Raises:
            ValueError: if the judge is closed.
        """
        if not self._archive.close.alive:
            raise ValueError("submit: the judge is closed, and another may have its archive")
        given = list(proposals)
        bar = Progress(given, desc="training programs", leave=False, disable=len(given) < 2)
        found = [self._score(*read(self._part, each)) for each in bar]
        best = next(iter(self.archive), Judged())
        if self.settings.evaluation.seeds and best.score is not None and best.verdict is None:
            assert best.id is not None
            scores = self.scores(best.id)
            if scores.pooled:  # else the tuned reference is nowhere better than random play
                self._archive.write(replace(best, verdict=scores.verdict()))
        return [self._answer(each) for each in found]

    def scores(self, program: int) -> Scores:
        """Return the held-out scores of a program, by its id, and of tuned hand-written functions.

        They are trained unless the archive has them.
        """
        name = f"program_{program}"
        own = Contender(name, self._problem, self._program(program), group=name)
        return self._kept("hand_written", self._tuned(self._rivals)).joined(
            self._kept(name, self._tuned([own]))
        )

    def _tuned(self, contenders: Sequence[Contender]) -> Judgement:
        config, seed = self.settings.evaluation, self.settings.run.seed
        return Judgement(contenders, config.budget, space=config.space, seed=seed)

    def _untuned(self, contender: Contender) -> Judgement:
        budget = Budget(settings=0, seeds=self.settings.evolution.seeds_per_candidate)
        seed, purpose = self.settings.run.seed, Purpose.EVOLUTION
        return Judgement([contender], budget, seed=seed, purpose=purpose)

    def _kept(self, name: str, judgement: Judgement) -> Scores:
        """Return the scores of a judgement, which the archive keeps under a name."""
        path = self._archive.folder / f"{name}.npz"
        return run(judgement, path, f"judging {name}", check_stop=lambda: None)

    def _score(self, proposal: Judged, program: PlainMapping) -> Judged:
        """Return a proposal with the id of the program that computes the same, once it is scored.

        A new one is trained and archived.
        """
        if not proposal.valid:
            return proposal
        own = self._fingerprint(program)
        if not behaviour.is_valid(own):
            reason = "expression: its output (of a loss, the slope) is 0 everywhere"
            return replace(proposal, reason=reason)
        for number, each in enumerate(self._outputs):
            if _is_same(each, own):
                return replace(proposal, id=number)
        new = replace(proposal, id=len(self._outputs))
        self._archive.write(self._scored(new, program))
        self._outputs.append(own)
        return new

    def _scored(self, new: Judged, program: PlainMapping) -> Judged:
        """Train agents with a new program, and return it with its score or the reason for none."""
        judgement = self._untuned(Contender(PROGRAM, self._problem, program, group=PROGRAM))
        for _ in judgement.steps():
            pass
        scores = judgement.scores()
        lost = int((~np.isfinite(scores.held_out)).any(axis=1).sum())
        if lost:
            reason = f"{lost} of {scores.seeds} agents diverged or finished no episode"
            return replace(new, reason=reason)
        if len(scores.tasks) > 1:
            reference = self._kept("reference", self._untuned(self._rivals[0]))
            if not reference.pooled:
                raise ConfigError(
                    f"tasks: {reference.contenders[0]} is nowhere better than random play, which "
                    "leaves no scale; train longer or choose other hyperparams"
                )
            scores = reference.joined(scores)
        found = scores.iqm(PROGRAM)
        return replace(new, score=found.value, interval=found.interval)

    def _answer(self, proposal: Judged) -> Judged:
        """Return a proposal with what the archive has about its program."""
        if proposal.id is None:
            return proposal
        program = self._archive.programs[proposal.id]
        own = {key: getattr(proposal, key) for key in ("name", "parent", "expression", "constants")}
        duplicate_of = None if program.text == proposal.text else program.id
        rank = None if program.score is None else 1 + self.archive.index(program)
        return replace(program, **own, duplicate_of=duplicate_of, rank=rank)

    def _program(self, number: int) -> PlainMapping:
        proposal, found = read(self._part, to_dict(self._archive.programs[number]))
        if not proposal.valid:
            raise ConfigError(f"archive: id = {number}: {proposal.reason}")
        return found


def raw_settings(slot: str | None, tasks: str | Path | PlainMapping) -> PlainDict:
    """Return plain settings of an evolution of a program in a slot, by default the settings'.

    If `tasks`, as for a `Judge`, evolve something else, their section component is left out.
    """
    given = load_yaml(presets.find(Path(tasks))) if isinstance(tasks, str | Path) else dict(tasks)
    if given.pop("evolve", PROGRAM) != PROGRAM:
        given.pop("component", None)
    own = {"component": {"slot": slot}} if slot else {}
    return merge(merge(DEFAULTS, given), {"evolve": PROGRAM, **own})
