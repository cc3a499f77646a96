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
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.works import ROOT, WORKS, Work

PHASES = ("start-up", "compiling", "working", "saving", "finishing")
FINISHING = 0.12
"""of the kills come after the last generation, update or trial"""


class Snapshot(NamedTuple):
    """Progress of a run, read from its directory."""

    config: int
    """when config.yaml was written, which every process does once [ns]"""
    metrics: int
    """inode of metrics.jsonl: a resumed run that drops records writes it anew"""
    lines: int
    checkpoint: int
    journal: int
    """size of a sweep's journal"""
    judged: int
    """when evaluation.json or scores.npz was written, shortly before the end [ns]"""
    unfinished: frozenset[str]
    """checkpoints that are being written, and files that end in the middle of a line"""

    def has_logged(self, before: "Snapshot") -> bool:
        """Whether this process, and not an earlier one, has written records."""
        is_rewritten = before.checkpoint >= 0 and self.metrics != before.metrics
        return self.lines > (before.checkpoint if is_rewritten else before.lines)

    def saves(self, before: "Snapshot") -> bool:
        """Whether a checkpoint or a trial is being written."""
        return bool(self.unfinished - before.unfinished) or self.journal != before.journal


def look(run_dir: Path) -> Snapshot:
    """Take a snapshot; the run may go on meanwhile."""
    metrics, journal = run_dir / "metrics.jsonl", run_dir / "study.journal"
    folder = run_dir / "checkpoints"
    names = [each.name for each in folder.iterdir()] if folder.exists() else []
    contents = {path.name: _read(path) for path in (metrics, journal)}
    torn = {
        f"{name} {len(text)}"
        for name, text in contents.items()
        if text and not text.endswith(b"\n")
    }
    judged = (run_dir / name for name in ("evaluation.json", "scores.npz"))
    return Snapshot(
        config=_stat(run_dir / "config.yaml", "st_mtime_ns"),
        metrics=_stat(metrics, "st_ino"),
        lines=contents[metrics.name].count(b"\n"),
        checkpoint=max((int(name[:-4]) for name in names if name[0].isdecimal()), default=-1),
        journal=len(contents[journal.name]),
        judged=max(_stat(path, "st_mtime_ns") for path in judged),
        unfinished=frozenset({name for name in names if name.endswith(".tmp")} | torn),
    )


def phase(before: Snapshot, after: Snapshot, total: int) -> str:
    """Return the phase in which a process was killed."""
    if after.config == before.config:
        return "start-up"
    if after.unfinished - before.unfinished:
        return "saving"
    if before.lines >= total or after.lines >= total:
        return "finishing"
    return "working" if after.has_logged(before) else "compiling"


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _stat(path: Path, name: str) -> int:
    return int(getattr(path.stat(), name)) if path.exists() else 0


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
        target, total = self.targets[number], self.work.total
        if number and self.random.random() < 0.25:
            longest = self.start * (1.5 if before.lines < total else 1.0)
            for now in self._wait(self.random.uniform(0, longest), before):
                if now.has_logged(before):
                    return  # a fast start must not take the records of later kills
                yield
            return
        while not self._has_reached(target, before):
            yield
        if target == total or (number and self.random.random() < 0.5):
            longest = self.finish if target == total else 0.03
            for _ in self._wait(self.random.uniform(0, longest), before):
                yield
            return
        reached = look(self.run_dir)
        while not (now := look(self.run_dir)).saves(reached) and now.lines < total:
            yield

    def _has_reached(self, target: int, before: Snapshot) -> bool:
        """Whether this process has as many records."""
        now = look(self.run_dir)
        if now.config == before.config:
            return False
        is_done = before.lines >= self.work.total
        return is_done or (now.lines >= target and now.has_logged(before))

    def _wait(self, seconds: float, before: Snapshot) -> Iterator[Snapshot]:
        """Yield for so many seconds, or until the process is about to end by itself."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (now := look(self.run_dir)).judged in (0, before.judged):
            yield now


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
