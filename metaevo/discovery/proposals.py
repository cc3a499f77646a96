"""A judge of proposed expressions: `metaevo.Judge`.

    {"expression": "-minimum(ratio, 1 + c) * advantage", "constants": {"c": 0.2}, "name": "a"}

A proposal is data: its expression is parsed into a program, and nothing is executed.
"""

import codecs
import functools
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
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
from metaevo.evolution.evaluation import evaluate
from metaevo.evolution.problem import Contender
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.parts import behaviour
from metaevo.parts.program import Program
from metaevo.runs.progress import Progress
from metaevo.studies.learner import problem_of
from metaevo.studies.settings import experiment_class, judged_on
from metaevo.tasks.task import Scale

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
            data = files.parse_line(data.removeprefix(codecs.BOM_UTF8), "line")
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
        batch: int = 8,
    ):
        """Build the tasks, and open the archive.

        Args:
            slot: value_loss, policy_loss, make_optimizer or schedule; by default the settings'.
            tasks: settings of an evolution: a YAML file, the name of a preset, or a dict.
            state: directory of the archive; by default it is not kept.
            batch: number of programs that are trained at once; a batch costs the same if it is not
                full.

        Raises:
            ConfigError: if settings are wrong, or if the archive is of another slot or tasks.
        """
        raw = raw_settings(slot, tasks)
        settings = from_dict(experiment_class(raw, None), raw)
        self.settings, self._part, self._batch = settings, settings.component, batch
        if self._part.count > 1:
            raise ConfigError("component.hyperparams: must be one, as a proposal is one expression")
        if batch < 1:
            raise ConfigError(f"batch = {batch}: must be at least 1")
        problem = self._problem = problem_of(settings)
        # A problem for each task, which compiles once; at full length and without draws.
        self._each = [
            problem.on({name: replace(task, sample={})}) for name, task in problem.named.items()
        ]
        if settings.evaluation.seeds:
            self._judgement()
        if state is None:
            state = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, state, ignore_errors=True)
        about = {
            "component": to_dict(self._part),
            "evaluation": to_dict(replace(settings.evaluation, unseen={})),
            "evolution": {"seeds_per_candidate": settings.evolution.seeds_per_candidate},
        }
        self._archive = Archive(Path(state), judged_on(settings) | about)
        self._fingerprint = jax.jit(functools.partial(self._part.fingerprint, points=POINTS))
        self._outputs = [self._fingerprint(self._program(each)) for each in self._archive.programs]

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
        if not self._archive.is_open:
            raise ValueError("submit: the judge is closed, and another may have its archive")
        known, outputs = list(self._archive.programs), list(self._outputs)
        found = [self._look_up(*read(self._part, each), known, outputs) for each in proposals]
        starts = range(len(self._outputs), len(known), self._batch)
        for start in Progress(starts, desc="training programs", leave=False, disable=not starts):
            batch = known[start : start + self._batch]
            for each, scores in zip(batch, self._train(batch), strict=True):
                self._archive.write(each.scored(scores))
                self._outputs.append(outputs[len(self._outputs)])
        best = next(iter(self.archive), Judged())
        if self.settings.evaluation.seeds and best.score is not None and best.verdict is None:
            scores = self.scores(self._archive.programs.index(best))
            if scores.pooled:  # else the tuned reference is nowhere better than random play
                self._archive.write(replace(best, verdict=scores.verdict()))
        ranks = {each.id: rank for rank, each in enumerate(self.archive, start=1)}
        return [self._answer(each, ranks) for each in found]

    def scores(self, program: int) -> Scores:
        """Return the held-out scores of a program, by its id, and of tuned hand-written functions.

        They are trained unless the archive has them.
        """
        name, own = f"program_{program}", self._program(self._archive.programs[program])
        judged = self._judged(name, [Contender(name, self._problem, own, group=name)])
        return self._hand_written.joined(judged)

    @functools.cached_property
    def _hand_written(self) -> Scores:
        return self._judged("hand_written")

    def _judged(self, name: str, contenders: Sequence[Contender] = ()) -> Scores:
        path = self._archive.folder / f"{name}.npz"
        return run(self._judgement(contenders), path, f"judging {name}", check_stop=lambda: None)

    def _judgement(self, contenders: Sequence[Contender] = ()) -> Judgement:
        """Return the judgement of contenders, by default of the hand-written functions."""
        config, seed = self.settings.evaluation, self.settings.run.seed
        try:
            contenders = contenders or self._problem.contenders(config.contenders, config.own)
            return Judgement(contenders, config.budget, space=config.space, seed=seed)
        except ConfigError as error:
            raise ConfigError(f"evaluation.{error}") from None

    def _look_up(
        self, proposal: Judged, program: PlainMapping, known: list[Judged], outputs: list[jax.Array]
    ) -> Judged:
        """Return a proposal with the id of the program that computes the same.

        A new one is added to the `known` programs and their outputs.
        """
        if not proposal.valid:
            return proposal
        own = self._fingerprint(program)
        if not behaviour.is_valid(own):
            reason = "expression: its output (of a loss, the slope) is 0 everywhere"
            return replace(proposal, reason=reason)
        for number, each in enumerate(outputs):
            if _is_same(each, own):
                return replace(proposal, id=number)
        known.append(replace(proposal, id=len(known)))
        outputs.append(own)
        return known[-1]

    def _answer(self, proposal: Judged, ranks: Mapping[int | None, int]) -> Judged:
        if proposal.id is None:
            return proposal
        program = self._archive.programs[proposal.id]
        labels = {key: getattr(proposal, key) for key in ("name", "parent", "expression")}
        return replace(
            program,
            **labels,
            constants=proposal.constants,
            duplicate_of=None if program.text == proposal.text else program.id,
            rank=None if program.score is None else ranks[program.id],
        )

    def _program(self, program: Judged) -> PlainMapping:
        proposal, found = read(self._part, to_dict(program))
        if not proposal.valid:
            raise ConfigError(f"archive: id = {program.id}: {proposal.reason}")
        return found

    def _train(self, batch: Sequence[Judged]) -> np.ndarray:
        """Return scores [programs, seeds, tasks], scaled if there are several tasks."""
        programs = [self._program(each) for each in batch]
        programs += programs[-1:] * (self._batch - len(programs))
        candidates = jax.tree.map(lambda *each: np.stack(each), *programs)
        evolution, seed = self.settings.evolution, self.settings.run.seed
        keys = keys_for(seed, Purpose.EVOLUTION, evolution.seeds_per_candidate)
        scores = np.stack([evaluate(one, candidates, keys).scores for one in self._each], axis=-1)
        low, high = np.transpose(self._scales)
        return ((np.float64(scores) - low) / (high - low))[: len(batch)]

    @functools.cached_property
    def _scales(self) -> list[Scale]:
        if len(self._each) == 1:
            return [Scale(0.0, 1.0)]
        return self._problem.measure_scales(seed=self.settings.run.seed)


def raw_settings(slot: str | None, tasks: str | Path | PlainMapping) -> PlainDict:
    """Return plain settings of an evolution of a program in a slot, by default the settings'.

    If `tasks`, as for a `Judge`, evolve something else, their section component is left out.
    """
    given = load_yaml(presets.find(Path(tasks))) if isinstance(tasks, str | Path) else dict(tasks)
    if given.pop("evolve", PROGRAM) != PROGRAM:
        given.pop("component", None)
    own = {"component": {"slot": slot}} if slot else {}
    return merge(merge(DEFAULTS, given), {"evolve": PROGRAM, **own})
