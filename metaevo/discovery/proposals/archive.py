"""The archive of a judge: everything that was trained, in a directory.

    judge.json        the slot and the settings
    archive.jsonl     a record for each program; the last line with an id is the current one

A line is appended as soon as it is known, so a killed process loses at most a training.
"""

import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import TypedDict

from metaevo.config import ConfigError, changed_keys, files, show
from metaevo.config.checks import Index, Measure, Number, Text, check
from metaevo.config.plain import PlainDict
from metaevo.discovery.proposals.reading import Label

ABOUT, RECORDS, LOCK = "judge.json", "archive.jsonl", "lock"


class Verdict(TypedDict):
    """The comparison of a program, untuned, with tuned hand-written functions."""

    conclusion: Text
    """better, worse or undecided"""
    iqm: Number
    """interquartile mean of the scores on held-out seeds"""
    interval: list[Number]
    seeds: Index
    baseline: Text
    """the best hand-written function"""
    baseline_iqm: Number
    difference: Number
    difference_interval: list[Number]
    p: Number


class Record(TypedDict):
    """A program that was trained."""

    id: Index
    name: Label
    parent: Label
    expression: Text
    constants: dict[str, Number]
    text: Text
    """the program with numbers in the place of named constants"""
    score: Measure
    """interquartile mean over seeds (and tasks); null if an agent has no score"""
    interval: list[Number] | None
    scores: list[list[Measure]]
    """[seeds, tasks]"""
    verdict: Verdict | None


class Archive:
    """Records by their ids, in a locked directory."""

    def __init__(self, folder: Path, about: PlainDict):
        """Open an archive, or begin one; `about` is everything that scores depend on.

        Raises:
            ConfigError: if it is an archive of another slot or of other tasks, is damaged, or is
                in use.
        """
        self.folder = files.make_folder(folder)
        names = [each.name for each in folder.iterdir() if not each.name.startswith(".")]
        if ABOUT not in names and names not in ([], [LOCK]):
            raise ConfigError(f"{folder}: is no archive, and not empty; name another directory")
        self.records: list[Record] = []
        """a new one is written when it has scores"""
        try:
            lock = files.lock(folder / LOCK, wait=False)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another judge is at work there") from None
        except OSError as error:
            raise files.unwritable(folder, error) from None
        self.unlock = weakref.finalize(self, os.close, lock)
        self._check(files.plain(about))
        for record in self._read():
            self.records[record["id"] : record["id"] + 1] = [record]  # the last line counts

    @property
    def is_locked(self) -> bool:
        """Whether this process may write."""
        return self.unlock.alive

    def _check(self, about: PlainDict) -> None:
        path = self.folder / ABOUT
        if not path.exists():
            files.write_json_atomic(path, about)
            return
        changed = changed_keys(files.read_json(path, dict), about)
        for key, (before, now) in changed.items():
            raise ConfigError(
                f"{self.folder}: is an archive with {key} = {show(before)}, not {show(now)}; "
                "name another directory"
            )

    def _read(self) -> Iterator[Record]:
        path = self.folder / RECORDS
        if not path.exists():
            return
        try:
            files.drop_unfinished_line(path)
            with open(path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    where = f"{path}, line {number}"
                    record = check(Record, files.parse_line(line, where), where)
                    if record["id"] > len(self.records):
                        raise ConfigError(f"{where}: id = {record['id']}: records are missing")
                    yield record
        except OSError as error:
            raise files.unreadable(path, error) from None

    def write(self, record: Record) -> None:
        """Write a record, after its scores or its verdict have changed."""
        try:
            files.append_line(self.folder / RECORDS, files.plain(record))
        except OSError as error:
            raise files.unwritable(self.folder / RECORDS, error) from None

    def best(self, count: int | None = None) -> list[Record]:
        """Return the records with the highest scores, in order."""
        scored = [each for each in self.records if each["score"] is not None]
        return sorted(scored, key=lambda each: -(each["score"] or 0.0))[:count]
