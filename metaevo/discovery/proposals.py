"""A judge of proposed expressions: `metaevo.Judge`.

    {"expression": "-minimum(ratio, 1 + c) * advantage", "constants": {"c": 0.2}, "name": "a"}

A proposal is data: its expression is parsed into a program, and nothing is executed. A new program
is judged untuned on a few search seeds; the best one of the archive then is judged like an evolved
part: tuned, against the tuned hand-written functions.
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from metaevo.config import (
    ConfigError,
    files,
    find_preset,
    from_dict,
    load_yaml,
    merge,
    show,
    to_dict,
)
from metaevo.config.checks import Number, Text, check
from metaevo.config.documentation import changed_keys
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.evolution.problem import Contender, Purpose
from metaevo.judging.budget import Budget
from metaevo.judging.judge import Judgement, run
from metaevo.judging.scores import Scores
from metaevo.judging.verdicts import Verdict
from metaevo.parts.program import Program
from metaevo.runs.run_directory import RunDirectory
from metaevo.statistics import Interval
from metaevo.studies.changed import judged_on
from metaevo.studies.settings import settings_class

Given = str | bytes | PlainMapping
PROGRAM = "program"
DEFAULTS: PlainDict = {"evolution": {"seeds_per_candidate": 16}}


class _Line(TypedDict):
    expression: Text
    constants: NotRequired[dict[str, Number] | None]
    name: NotRequired[str | int | None]


@dataclass(frozen=True)
class Judged:
    """A proposal, and what is known about it."""

    name: str | int | None = None
    expression: str | None = None
    constants: dict[str, float] = field(default_factory=dict)
    text: str | None = None
    """the program, with numbers in the place of named constants"""
    id: str = ""
    """digest of `text`; empty if the proposal is no program"""
    reason: str | None = None
    """why agents cannot be trained with it; None if they can"""
    score: float | None = None
    """interquartile mean over search seeds, higher is better; with several tasks, 0 is random play
    and 1 the hand-written reference"""
    interval: Interval | None = None
    """95% bootstrap interval of the score"""
    verdict: Verdict | None = field(default=None, repr=False)
    """against tuned hand-written functions on held-out seeds, if it was once the best"""

    @property
    def valid(self) -> bool:
        """Whether agents can be trained with it."""
        return self.reason is None

    def record(self) -> PlainDict:
        """Return the answer as a line of `metaevo judge` has it."""
        return {"valid": self.valid, **to_dict(self)}


def read(language: Program, given: Given) -> tuple[Judged, PlainMapping]:
    """Return a proposal and its program, which is empty if the proposal is not valid.

    Args:
        language: the part.
        given: an expression, a line of JSON (bytes) or its content, of which other keys than those
            of a proposal are ignored.
    """
    proposal = Judged()
    try:
        data: Any = files.parse_json(given, "line") if isinstance(given, bytes) else given
        data = {"expression": data} if isinstance(given, str) else data
        line = check(_Line, data, "proposal")
        expression, numbers = line["expression"], line.get("constants") or {}
        proposal = Judged(line.get("name"), expression, numbers)
        codes, constants = language.read(expression, numbers)
    except ValueError as error:
        return replace(proposal, reason=str(error)), {}
    program = {"codes": codes[np.newaxis], "constants": constants[np.newaxis]}
    text = language.text(program)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return replace(proposal, text=text, id=digest), program


class Judge(contextlib.AbstractContextManager["Judge"]):
    """Scores proposed expressions by training, and archives them.

    The archive is a locked directory. `judge.json` has the settings that scores depend on;
    `archive.jsonl` has a line for each program, appended when it is trained, and once more with its
    verdict: the last line with an id counts.

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
            slot: value_loss, policy_loss, make_optimizer, schedule or targets; by default that of
                the settings.
            tasks: settings of an evolution: a YAML file, the name of a preset, or a dict.
            state: directory of the archive; by default it is not kept.

        Raises:
            ConfigError: if settings are wrong, or if the archive is of another slot or tasks.
        """
        raw = raw_settings(slot, tasks)
        settings = from_dict(settings_class(raw), raw)
        if settings.component.count > 1:
            raise ConfigError("component.hyperparams: must be one, as a proposal is one expression")
        self.settings, config, self._problem = settings, settings.evaluation, settings.build()
        (part,) = self._problem.parts.by_slot.values()
        self.language: Any = part
        """the part, as it is in the learner's slot"""
        try:
            self._rivals = self._problem.contenders(config.contenders, config.own)
            if config.seeds:
                self._judgement(self._rivals)
        except ConfigError as error:
            raise ConfigError(f"evaluation.{error}") from None
        self._programs: dict[str, Judged] = {}
        with contextlib.ExitStack() as stack:
            folder = state or stack.enter_context(tempfile.TemporaryDirectory())
            self._folder = files.make_folder(folder)
            stack.enter_context(RunDirectory(self._folder).locked())
            self._open(settings)
            self._lock: contextlib.ExitStack | None = stack.pop_all()

    def _open(self, settings: Any) -> None:
        """Check that the archive has these settings, or begin one, and read its programs."""
        about = judged_on(settings) | {
            "component": to_dict(self.language),
            "evaluation": to_dict(replace(settings.evaluation, unseen={})),
            "evolution": {"seeds_per_candidate": settings.evolution.seeds_per_candidate},
        }
        about, path = files.plain(about), self._folder / "judge.json"
        if not path.exists():
            files.write_json_atomic(path, about)
        for key, (before, now) in changed_keys(files.read_json(path, dict), about).items():
            raise ConfigError(
                f"{self._folder}: is an archive with {key} = {show(before)}, not {show(now)}; "
                "name another directory"
            )
        self._path = self._folder / "archive.jsonl"
        lines = files.read(self._path).split(b"\n")[:-1] if self._path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                program = from_dict(Judged, files.parse_json(line, "line"))
            except ConfigError as error:
                raise ConfigError(f"{self._path}, line {number}: {error}") from None
            self._programs[program.id] = program

    def close(self) -> None:
        """Unlock the archive, so that another judge can continue it; this one is at its end."""
        if self._lock is not None:
            self._lock.close()
        self._lock = None

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def archive(self) -> list[Judged]:
        """All programs that were trained, the best one first; those without a score at the end."""
        programs = self._programs.values()
        return sorted(programs, key=lambda each: (each.score is None, -(each.score or 0.0)))

    def submit(self, proposals: Iterable[Given]) -> list[Judged]:
        """Judge proposals, and return the answers in the same order.

        Args:
            proposals: expressions; or mappings with `expression` and optionally `constants` and
                `name`; or these as a line of JSON, in bytes.

        Raises:
            ValueError: if the judge is closed.
        """
        if self._lock is None:
            raise ValueError("submit: the judge is closed, and another may have its archive")
        found = []
        for proposal, program in (read(self.language, each) for each in proposals):
            if proposal.valid and proposal.id not in self._programs:
                self._write(self._scored(proposal, program))
            found.append(proposal)
        best = next(iter(self.archive), Judged())
        if self.settings.evaluation.seeds and best.score is not None and best.verdict is None:
            scores = self.scores(best.id)
            if scores.pooled:  # else the tuned reference is nowhere better than random play
                self._write(replace(best, verdict=scores.verdict()))
        return [
            replace(self._programs[each.id], name=each.name) if each.valid else each
            for each in found
        ]

    def scores(self, program: str) -> Scores:
        """Return the held-out scores of a program, by its id, and of tuned hand-written functions.

        They are trained unless the archive has them.
        """
        archived, numbers = read(self.language, to_dict(self._programs[program]))
        name = f"program_{archived.id}"
        own = Contender(name, self._problem, numbers, group=name)
        rivals = self._kept("hand_written", self._judgement(self._rivals))
        return _joined(rivals, self._kept(name, self._judgement([own])))

    def examples(self) -> dict[str, Judgement]:
        """Return judgements of hand-written functions, as large as those of proposals."""
        search = {"a proposal": self._judgement(self._rivals[:1], is_search=True)}
        if not self.settings.evaluation.seeds:
            return search
        return search | {"the best one, against": self._judgement(self._rivals)}

    def _judgement(self, contenders: Sequence[Contender], *, is_search: bool = False) -> Judgement:
        """Return a judgement of tuned contenders, or of untuned ones on the search seeds."""
        config, seed = self.settings.evaluation, self.settings.run.seed
        if not is_search:
            return Judgement(contenders, config.budget(), space=config.space, seed=seed)
        budget = Budget(settings=0, seeds=self.settings.evolution.seeds_per_candidate)
        return Judgement(contenders, budget, seed=seed, purpose=Purpose.EVOLUTION)

    def _kept(self, name: str, judgement: Judgement) -> Scores:
        """Return the scores of a judgement, which the archive keeps under a name."""
        path = self._folder / f"{name}.npz"
        return run(judgement, path, f"judging {name}", check_stop=lambda: None)

    def _scored(self, new: Judged, program: PlainMapping) -> Judged:
        """Train agents with a new program, and return it with its score or the reason for none."""
        own = Contender(PROGRAM, self._problem, program, group=PROGRAM)
        judgement = self._judgement([own], is_search=True)
        for _ in judgement.steps():
            pass
        scores = judgement.scores
        lost = int((~np.isfinite(scores.held_out)).any(axis=1).sum())
        if lost:
            reason = f"{lost} of {scores.seeds} agents diverged or finished no episode"
            return replace(new, reason=reason)
        if len(scores.tasks) > 1:
            reference = self._judgement(self._rivals[:1], is_search=True)
            scores = _joined(self._kept("reference", reference), scores)
            if not scores.pooled:
                reason = "the hand-written reference is nowhere better than random play: no scale"
                return replace(new, reason=reason)
        found = scores.iqm(PROGRAM)
        return replace(new, score=found.value, interval=found.interval)

    def _write(self, program: Judged) -> None:
        """Write a new program, or one that has changed."""
        try:
            files.append_line(self._path, files.plain(to_dict(program)))
        except OSError as error:
            raise files.unusable(self._path, error) from None
        self._programs[program.id] = program


def _joined(scores: Scores, others: Scores) -> Scores:
    """Return scores with further contenders, judged alone with the same tasks and budget.

    They have the scale of the first ones, and no settings and curves.
    """
    kept: PlainDict = {"settings": None, "curves": None, "steps": None, "hyperparams": ()}
    for name in ("screening", "finalists", "selection", "held_out"):
        kept[name] = np.concatenate([getattr(scores, name), getattr(others, name)])
    for name in ("contenders", "groups", "frames"):
        kept[name] = getattr(scores, name) + getattr(others, name)
    return replace(scores, **kept)


def raw_settings(slot: str | None, tasks: str | Path | PlainMapping) -> PlainDict:
    """Return plain settings of an evolution of a program in a slot, by default the settings'.

    If `tasks`, as for a `Judge`, evolve something else, their section component is left out.
    """
    given = load_yaml(find_preset(Path(tasks))) if isinstance(tasks, str | Path) else dict(tasks)
    if given.pop("evolve", PROGRAM) != PROGRAM:
        given.pop("component", None)
    own = {"component": {"slot": slot}} if slot else {}
    return merge(merge(DEFAULTS, given), {"evolve": PROGRAM, **own})
