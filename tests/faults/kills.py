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

from tests.faults.forks import ForkServer
from tests.faults.works import ROOT, WORKS, Work

PHASES = ("start-up", "compiling", "working", "saving", "finishing")
SELDOM, OFTEN = 0.01, 0.0005
"""seconds between two looks: a look costs the run its processor, too"""
FINISHING = 0.12
"""of the kills come after the last generation, update or trial"""


@dataclass(frozen=True)
class Snapshot:
    """What a run directory says of how far the run is."""

    config: int
    """when config.yaml was written, which every process does once [ns]"""
    metrics: int
    """inode of metrics.jsonl: a resumed run that forgets something writes it anew"""
    lines: int
    checkpoint: int
    evaluation: int
    """when evaluation.json was written, shortly before the end [ns]"""
    unfinished: frozenset[str]
    torn: frozenset[tuple[str, int]]
    """files that end in the middle of a line, and their sizes"""


def look(run_dir: Path) -> Snapshot:
    """Take a snapshot; the run may go on meanwhile."""
    metrics, journal = run_dir / "metrics.jsonl", run_dir / "study.journal"
    names = [each.name for each in _listdir(run_dir / "checkpoints")]
    content = _read(metrics)
    return Snapshot(
        config=_stat(run_dir / "config.yaml", "st_mtime_ns"),
        metrics=_stat(metrics, "st_ino"),
        lines=content.count(b"\n"),
        checkpoint=max((int(name) for name in names if name.isdecimal()), default=-1),
        evaluation=_stat(run_dir / "evaluation.json", "st_mtime_ns"),
        unfinished=frozenset(
            str(each)
            for folder in (run_dir, run_dir / "checkpoints")
            for each in folder.glob(".unfinished-*")
        ),
        torn=frozenset(
            (path.name, len(text))
            for path, text in ((metrics, content), (journal, _read(journal)))
            if text and not text.endswith(b"\n")
        ),
    )


def phase(before: Snapshot, after: Snapshot, total: int) -> str:
    """Return what the process that was killed was doing."""
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
    """Chooses the moments, from its own random numbers and from what lies in the directory."""

    def __init__(self, work: Work, run_dir: Path, cache: Path, *, kills: int, seed: int) -> None:
        self.work, self.run_dir, self.cache, self.kills = work, run_dir, cache, kills
        self.random = random.Random(seed)
        self.seconds = {"start": 0.0, "finish": 0.0}
        late = max(1, round(FINISHING * kills))
        self.targets = sorted(self.random.randrange(work.total) for _ in range(kills - late))
        self.phases: Counter[str] = Counter()
        self.intended: Counter[str] = Counter()
        self.server = ForkServer(work.environment(cache) | {"OPENBLAS_NUM_THREADS": "1"}, ROOT)

    def undisturbed(self, reference: Path) -> None:
        """Run without a kill, to know the result and how long start and end take about."""
        process, begun = self.work.start(reference, self.cache), time.monotonic()
        done = begun
        while process.poll() is None:
            now = look(reference)
            if not now.config:
                self.seconds["start"] = 1.5 * (time.monotonic() - begun)
            if now.lines < self.work.total:
                done = time.monotonic()
            time.sleep(0.01)
        self.seconds["finish"] = 0.5 * (time.monotonic() - done)  # the rest is compilation
        error = process.ended()
        assert process.returncode == 0, error

    def strike(self, number: int) -> str:
        """Start, or continue, the run, and kill it; the phase that it was in."""
        before = look(self.run_dir)
        intent = self._intent(number, before)
        self.intended[intent] += 1
        process, begun = self.server.start(self.work.command(self.run_dir)), time.monotonic()
        starts = True
        for pause in self._until(intent, number, before):
            if process.poll() is not None:
                error = process.ended()
                raise AssertionError(
                    f"ended with {process.returncode} before kill {number + 1} ({intent}): {error}"
                )
            time.sleep(pause)
            if starts and _stat(self.run_dir / "config.yaml", "st_mtime_ns") != before.config:
                starts, self.seconds["start"] = False, 1.5 * (time.monotonic() - begun)
        process.kill()
        process.ended()
        assert process.returncode == -9, "it ended before the kill"
        found = phase(before, look(self.run_dir), self.work.total)
        self.phases[found] += 1
        return found

    def _intent(self, number: int, before: Snapshot) -> str:
        if number == 0 and self.kills > 1:
            return "first save"
        if number >= len(self.targets):
            return self.random.choice(["finish", "finish", "start"])
        if before.checkpoint < 0 and number < 3:
            return self.random.choice(["start", "work"])
        return self.random.choices(["start", "work", "save"], [0.25, 0.4, 0.35])[0]

    def _until(self, intent: str, number: int, before: Snapshot) -> Iterator[float]:
        """Yield seconds to sleep until the moment has come."""
        if intent == "start":
            for _ in self._wait(self.random.uniform(0, self.seconds["start"])):
                if _has_logged(before, now := look(self.run_dir)) or self._ends(before, now):
                    break
                yield SELDOM
        elif intent == "first save":
            while not self._saves(before):
                yield OFTEN
        elif intent == "finish":
            while (now := look(self.run_dir)).config == before.config:
                yield SELDOM
            while now.lines < self.work.total:
                yield SELDOM
                now = look(self.run_dir)
            for _ in self._wait(self.random.uniform(0, self.seconds["finish"])):
                if self._ends(before, look(self.run_dir)):
                    break
                yield SELDOM
        else:
            target = self.targets[number]
            while True:
                now = look(self.run_dir)
                if _has_logged(before, now) and now.lines >= target:
                    break
                if now.config != before.config and before.lines >= self.work.total:
                    break  # all is done already
                yield SELDOM
            if intent == "work":
                yield from self._wait(self.random.uniform(0, 0.03))
            elif now.lines < self.work.total - 10:
                saved = look(self.run_dir)
                while not self._saves(saved):
                    yield OFTEN
                yield from self._wait(self.random.choice([0, 0, 0.001, 0.003]))

    def _saves(self, before: Snapshot) -> bool:
        """Whether something is being written now."""
        if self.work.name == "sweep":
            journal = self.run_dir / "study.journal"
            size = _stat(journal, "st_size")
            previous, self._size = getattr(self, "_size", size), size
            return size != previous
        folder = self.run_dir / "checkpoints"
        return any(
            str(each) not in before.unfinished
            for each in _listdir(folder)
            if each.name.startswith(".unfinished-")
        )

    @staticmethod
    def _ends(before: Snapshot, now: Snapshot) -> bool:
        """Whether the process is about to end by itself."""
        return now.evaluation not in (0, before.evaluation)

    @staticmethod
    def _wait(seconds: float) -> Iterator[float]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            yield min(left, SELDOM)


def _listdir(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _stat(path: Path, name: str) -> int:
    try:
        return int(getattr(path.stat(), name))
    except OSError:
        return 0


def kill_and_compare(work: Work, folder: Path, *, kills: int, seed: int) -> dict[str, Any]:
    """Kill a run so many times and let it end.

    The one that nobody disturbs compiles everything itself, the others read from JAX's cache.

    Raises:
        AssertionError: if it ends differently from one that nobody disturbed.

    Returns:
        counts, for the table in docs/explanation/reliability.md.
    """
    begun = time.monotonic()
    reference, killed = folder / "reference", folder / "killed"
    assassin = Assassin(work, killed, folder / "cache", kills=kills, seed=seed)
    assassin.undisturbed(reference)
    expected = work.result(reference)
    logged: list[dict[str, Any]] = []
    for number in range(kills):
        found = assassin.strike(number)
        logged = _check_kept(killed, logged, found)
        print(f"kill {number + 1}: {found}, {look(killed).lines} records", flush=True)
    assassin.server.end()
    work.run(killed, folder / "cache")
    assert work.result(killed) == expected, "the run that was killed ended differently"
    return {
        "work": work.name,
        "kills": sum(assassin.phases.values()),
        "phases": {each: assassin.phases[each] for each in PHASES},
        "intended": dict(assassin.intended),
        "processes": kills + 1,
        "seed": seed,
        "records": len(expected["records"]),
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "commit": _commit(),
        "equal to the uninterrupted run": True,
    }


def _check_kept(run_dir: Path, before: list[Any], found: str) -> list[Any]:
    """Finished trials of a sweep stay as they are; other runs forget what they compute again."""
    if not (run_dir / "study.journal").exists() or found == "start-up":
        return before
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
