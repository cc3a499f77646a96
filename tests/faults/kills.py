"""Kill a run again and again, at random moments, and see whether it ends as if nothing had been.

python -m tests.faults.kills evolution --kills 100 --seed 0 --json evolution.json
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.works import ROOT, WORKS, Work

PHASES = ("start-up", "compiling", "working", "saving", "finishing")
FINISHING = 0.12
"""of the kills come after the last generation, update or trial"""


@dataclass(frozen=True)
class Snapshot:
    """Progress of a run, read from its directory."""

    config: int
    """when config.yaml was written, which every process does once [ns]"""
    metrics: int
    """inode of metrics.jsonl: a resumed run that drops records writes it anew"""
    lines: int
    checkpoint: int
    journal: int
    """size of a sweep's journal"""
    evaluation: int
    """when evaluation.json or scores.npz was written, shortly before the end [ns]"""
    unfinished: frozenset[str]
    """checkpoints that are being written"""
    torn: frozenset[tuple[str, int]]
    """files that end in the middle of a line, and their sizes"""


def look(run_dir: Path) -> Snapshot:
    """Take a snapshot; the run may go on meanwhile."""
    metrics, journal = run_dir / "metrics.jsonl", run_dir / "study.journal"
    checkpoints = run_dir / "checkpoints"
    names = [each.name for each in checkpoints.iterdir()] if checkpoints.exists() else []
    contents = {path.name: _read(path) for path in (metrics, journal)}
    return Snapshot(
        config=_stat(run_dir / "config.yaml", "st_mtime_ns"),
        metrics=_stat(metrics, "st_ino"),
        lines=contents[metrics.name].count(b"\n"),
        checkpoint=max((int(name[:-4]) for name in names if name[0].isdecimal()), default=-1),
        journal=len(contents[journal.name]),
        evaluation=max(
            _stat(run_dir / name, "st_mtime_ns") for name in ("evaluation.json", "scores.npz")
        ),
        unfinished=frozenset(name for name in names if name.endswith(".tmp")),
        torn=frozenset(
            (name, len(text))
            for name, text in contents.items()
            if text and not text.endswith(b"\n")
        ),
    )


def phase(before: Snapshot, after: Snapshot, total: int) -> str:
    """Return the phase in which a process was killed."""
    if after.config == before.config:
        return "start-up"
    if after.unfinished - before.unfinished or after.torn - before.torn:
        return "saving"
    if before.lines >= total or after.lines >= total:
        return "finishing"
    return "working" if _has_logged(before, after) else "compiling"


def _has_logged(before: Snapshot, now: Snapshot) -> bool:
    """Whether this process, and not an earlier one, has written records."""
    if before.checkpoint < 0:  # there was nothing to go back to
        return now.lines > before.lines
    return now.metrics != before.metrics and now.lines > before.checkpoint


class Assassin:
    """Chooses the moments from its own random numbers and from the run's directory."""

    def __init__(self, work: Work, run_dir: Path, cache: Path, *, kills: int, seed: int) -> None:
        self.work, self.run_dir, self.cache = work, run_dir, cache
        self.random = random.Random(seed)
        late = max(1, round(FINISHING * kills))
        early = sorted(self.random.randrange(work.total) for _ in range(kills - late))
        self.targets = [*early, *[work.total] * late]
        self.start, self.finish = 0.0, 0.0

    def undisturbed(self, reference: Path) -> None:
        """Run without a kill; note how many seconds its start and its end take."""
        process, begun = self.work.start(reference, self.cache), time.monotonic()
        done = begun
        while process.poll() is None:
            now = look(reference)
            if not now.config:
                self.start = time.monotonic() - begun
            if now.lines < self.work.total:
                done = time.monotonic()
            time.sleep(0.01)
        self.finish = 0.5 * (time.monotonic() - done)  # the rest is compilation
        error = process.ended()
        assert process.returncode == 0, error

    def strike(self, number: int) -> str:
        """Start, or continue, the run, and kill it; return the phase that it was in."""
        before = look(self.run_dir)
        process = self.work.start(self.run_dir, self.cache)
        for _ in self._until(number, before):
            assert process.poll() is None, f"kill {number + 1} came too late: {process.ended()}"
            time.sleep(0.0005)
        process.kill()
        process.ended()
        assert process.returncode == -9, "it ended before the kill"
        return phase(before, look(self.run_dir), self.work.total)

    def _until(self, number: int, before: Snapshot) -> Iterator[None]:
        """Yield until the moment of a kill has come: after some time, records or saves."""
        target = self.targets[number]
        if number and self.random.random() < 0.25:
            works = 1.5 if before.lines < self.work.total else 1.0
            for _ in self._wait(self.random.uniform(0, works * self.start), before):
                if _has_logged(before, look(self.run_dir)):
                    return  # a fast start must not take the records of later kills
                yield
            return
        while not self._has_reached(target, before):
            yield
        if target == self.work.total:
            yield from self._wait(self.random.uniform(0, self.finish), before)
        elif number == 0 or self.random.random() < 0.5:
            saved = look(self.run_dir)
            while not self._saves(saved) and look(self.run_dir).lines < self.work.total:
                yield
        else:
            yield from self._wait(self.random.uniform(0, 0.03), before)

    def _has_reached(self, target: int, before: Snapshot) -> bool:
        """Whether this process has as many records."""
        now = look(self.run_dir)
        if now.config == before.config:
            return False
        if before.lines >= self.work.total:
            return True
        return now.lines >= target and _has_logged(before, now)

    def _saves(self, before: Snapshot) -> bool:
        """Whether a checkpoint or a trial is being written."""
        now = look(self.run_dir)
        return bool(now.unfinished - before.unfinished) or now.journal != before.journal

    def _wait(self, seconds: float, before: Snapshot) -> Iterator[None]:
        """Yield for so many seconds, or until the process is about to end by itself."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if look(self.run_dir).evaluation not in (0, before.evaluation):
                return
            yield


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _stat(path: Path, name: str) -> int:
    return int(getattr(path.stat(), name)) if path.exists() else 0


def kill_and_compare(work: Work, folder: Path, *, kills: int, seed: int) -> dict[str, Any]:
    """Kill a run so many times and let it end.

    The undisturbed run compiles everything itself, the others read from JAX's cache.

    Raises:
        AssertionError: if it ends differently from the undisturbed run.

    Returns:
        counts, for the table in docs/explanation/reliability.md.
    """
    begun = time.monotonic()
    reference, killed = folder / "reference", folder / "killed"
    assassin = Assassin(work, killed, folder / "cache", kills=kills, seed=seed)
    assassin.undisturbed(reference)
    expected = work.result(reference)
    trials: list[dict[str, Any]] = []
    phases: Counter[str] = Counter()
    for number in range(kills):
        found = assassin.strike(number)
        phases[found] += 1
        if work.name == "sweep" and found != "start-up":
            trials = _kept_trials(killed, trials)
        print(f"kill {number + 1}: {found}, {look(killed).lines} records", flush=True)
    work.run(killed, folder / "cache")
    assert work.result(killed) == expected, "the killed run ended differently"
    return {
        "work": work.name,
        "kills": sum(phases.values()),
        "phases": {each: phases[each] for each in PHASES},
        "seed": seed,
        "records": len(expected["records"]),
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "commit": _commit(),
        "equal to the uninterrupted run": True,
    }


def _kept_trials(run_dir: Path, before: list[Any]) -> list[Any]:
    """Return the trials of a sweep, of which the finished ones must stay as they are."""
    lines = _read(run_dir / "metrics.jsonl").split(b"\n")[:-1]
    trials = [each for each in map(json.loads, lines) if each["kind"] == "trial"]
    assert trials[: len(before)] == before, "a finished trial was changed"
    return trials


def _commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return done.stdout.strip()


def main() -> None:
    """Print, and write, the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="a new one, which is kept")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="kills-"))
    folder.mkdir(parents=True, exist_ok=True)
    counts = kill_and_compare(WORKS[args.work], folder, kills=args.kills, seed=args.seed)
    print(json.dumps(counts, indent=1))
    if args.json:
        args.json.write_text(json.dumps(counts, indent=1) + "\n")
    if args.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
