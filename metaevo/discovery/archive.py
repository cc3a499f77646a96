"""The archive of a judge of proposals: a locked directory with every program that was trained.

`judge.json` has the settings that scores depend on. `archive.jsonl` has a line for each program,
appended when it is trained, and once more with its verdict: the last line with an id counts.
"""

import contextlib
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from metaevo.config import ConfigError, changed_keys, files, from_dict, show, to_dict
from metaevo.config.plain import PlainDict
from metaevo.judging.verdict import Verdict
from metaevo.runs.run_directory import RunDirectory
from metaevo.statistics import Interval

Label = str | int | None


@dataclass(frozen=True)
class Judged:
    """A proposal, and what is known about it."""

    name: Label = None
    parent: Label = None
    expression: str | None = None
    constants: dict[str, float] = field(default_factory=dict)
    text: str | None = None
    """the program, with numbers in the place of named constants"""
    reason: str | None = None
    """why agents cannot be trained with it; None if they can"""
    id: int | None = None
    """number of the program in the archive"""
    duplicate_of: int | None = None
    """id of an earlier program with another text that computes the same; scores are of that one"""
    rank: int | None = None
    """place in the archive by score; 1 is the best"""
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


class Archive:
    """Programs by their ids, in a locked directory."""

    def __init__(self, folder: Path, settings: PlainDict):
        """Open an archive, or begin one with these settings.

        Raises:
            ConfigError: if its settings are others, or it is damaged or in use.
        """
        self.folder, self.programs = files.make_folder(folder), list[Judged]()
        self.path = folder / "archive.jsonl"
        with contextlib.ExitStack() as stack:
            stack.enter_context(RunDirectory(folder).locked())
            self._open(files.plain(settings))
            self.close = weakref.finalize(self, stack.pop_all().close)

    def _open(self, settings: PlainDict) -> None:
        about = self.folder / "judge.json"
        if not about.exists():
            files.write_json_atomic(about, settings)
        changed = changed_keys(files.read_json(about, dict), settings)
        for key, (before, now) in changed.items():
            raise ConfigError(
                f"{self.folder}: is an archive with {key} = {show(before)}, not {show(now)}; "
                "name another directory"
            )
        lines = files.read(self.path).split(b"\n")[:-1] if self.path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                self._put(from_dict(Judged, files.parse_json(line, "line")))
            except ConfigError as error:
                raise ConfigError(f"{self.path}, line {number}: {error}") from None

    def write(self, program: Judged) -> None:
        """Write a new program, or one that has changed."""
        try:
            files.append_line(self.path, files.plain(to_dict(program)))
        except OSError as error:
            raise files.unwritable(self.path, error) from None
        self._put(program)

    def _put(self, program: Judged) -> None:
        if program.id is None or not 0 <= program.id <= len(self.programs):
            raise ConfigError(f"id = {program.id}: earlier programs are missing")
        self.programs[program.id : program.id + 1] = [program]

    def ranked(self) -> list[Judged]:
        """Return the programs, the best one first and those without a score last."""
        return sorted(self.programs, key=lambda each: (each.score is None, -(each.score or 0.0)))
