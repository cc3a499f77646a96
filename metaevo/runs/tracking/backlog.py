"""What a destination lacks of a run, found by reading the run's files."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.runs import files
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import check_record, check_tracked
from metaevo.runs.tracking.state import State, has

REVISED = ("evaluation",)
"""Kinds of records that every end of a run writes again, perhaps with other numbers."""
RESULTS = ("evaluation.json", "learning_curves.csv", "figures", "meta_params", "report.html")
"""What a run leaves that is worth storing, if it is there."""


class Child(NamedTuple):
    """A nested run: a trial of a sweep, a seed of a training."""

    name: str
    job_type: str
    config: dict[str, Any]
    records: list[dict[str, Any]]


class Artifact(NamedTuple):
    """A file or a directory to store."""

    name: str
    path: Path
    digest: str


class Tail:
    """Reads what is appended to a file of JSON lines, also after the file was replaced."""

    def __init__(self, path: Path, check: Callable[[Any, str], dict[str, Any]]) -> None:
        """Begin at the beginning.

        Args:
            path: of the file.
            check: of metaevo.runs.schema, for a line.
        """
        self._path, self._check = path, check
        self._position, self._last = 0, b""

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the complete lines that are new; all of them, if the file is another one.

        Raises:
            ConfigError: if one of them does not pass the check, or the file cannot be read.
        """
        try:
            with files.open_file(self._path) as file:
                file.seek(self._position - len(self._last))
                # Where the last line read was, may be another.
                if file.read(len(self._last)) != self._last:
                    self._position = file.seek(0)
                content = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.unreadable(self._path, error) from None
        # What follows the last newline is nothing, or a line that is being written.
        lines = content.split(b"\n")[:-1]
        self._position += sum(len(line) + 1 for line in lines)
        self._last = lines[-1] + b"\n" if lines else self._last
        for line in lines:
            yield self._check(files.parse_line(line, str(self._path)), str(self._path))


class Backlog:
    """The records, nested runs and artifacts of a run that a destination lacks."""

    def __init__(self, run: RunDirectory, *, results: bool = False) -> None:
        """Begin with an empty one; `refresh` fills it.

        Args:
            run: the run.
            results: also store what lies in the directory without having been announced.
        """
        self.run = run
        self.records: dict[tuple[str, int], dict[str, Any]] = {}
        self.children: dict[str, Child] = {}
        self.artifacts: dict[str, Artifact] = {}
        self._results = results
        self._metrics = Tail(run.metrics_path, check_record)
        self._tracked = Tail(run.tracked_path, check_tracked)

    def __bool__(self) -> bool:
        return bool(self.records or self.children or self.artifacts)

    def __str__(self) -> str:
        counts = {
            "record": len(self.records),
            "nested run": len(self.children),
            "artifact": len(self.artifacts),
        }
        texts = [f"{n:,} {name}{'s' * (n > 1)}" for name, n in counts.items() if n]
        return " and ".join([", ".join(texts[:-1]), texts[-1]] if texts[1:] else texts) or "nothing"

    def refresh(self, state: State) -> None:
        """Read on, and keep what the state lacks.

        Raises:
            ConfigError: if a file of the run is damaged, or an artifact lies outside of the run.
        """
        for record in self._metrics.read():
            key = key_of(record)
            if not _is_sent(state, key, record):
                self.records[key] = record
        for line in self._tracked.read():
            if "child" in line:
                self._add_child(line, state)
            elif "artifact" in line:
                self._add_artifact(line["artifact"], state)
        for name in RESULTS if self._results else ():
            self._add_artifact(name, state)

    def _add_child(self, line: dict[str, Any], state: State) -> None:
        # The first of a name is it: a service cannot take back what it has.
        if line["child"] not in state.children and line["child"] not in self.children:
            self.children[line["child"]] = Child(
                line["child"], line["job_type"], line["config"], line["records"]
            )

    def _add_artifact(self, name: Any, state: State) -> None:
        path = files.inside(self.run.path, name)
        if path.exists():
            digest = digest_of(path)
            if state.artifacts.get(name) != digest:
                self.artifacts[name] = Artifact(name, path, digest)


def missing(run: RunDirectory, state: State, *, results: bool = False) -> Backlog:
    """Return what a destination lacks of a run, to be counted."""
    backlog = Backlog(run, results=results)
    backlog.refresh(state)
    return backlog


def key_of(record: dict[str, Any]) -> tuple[str, int]:
    """Return a record's kind and its index under that name."""
    return record["kind"], record[record["kind"]]


def record_digest(record: dict[str, Any]) -> str:
    """Return a digest of a record."""
    return _digest(json.dumps(record, sort_keys=True).encode())


def digest_of(path: Path) -> str:
    """Return a digest of a file, or of all files of a directory and their names.

    Raises:
        ConfigError: if one of them is no file but a link or the like.
    """
    found = {name: _digest(files.read(each)) for name, each in files.contents(path).items()}
    if not path.is_dir():
        return found[path.name]
    lines = [f"{name} {digest}\n" for name, digest in found.items()]
    return _digest("".join(lines).encode())


def _is_sent(state: State, key: tuple[str, int], record: dict[str, Any]) -> bool:
    kind, index = key
    if kind in REVISED:
        return state.revised.get(f"{kind}/{index}") == record_digest(record)
    return has(state.sent.get(kind, []), index)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
