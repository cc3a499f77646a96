"""Kill a run again and again, at random moments, and see whether it ends as if nothing had been.

python -m tests.faults.kills evolution --kills 100 --seed 0 --json evolution.json
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.runs.run_directory import commit
from tests.faults.works import WORKS, Work, count_records

PHASES = ("start-up", "compiling", "working", "saving", "finishing")
FINISHING = 0.12
"""of the kills come after the last generation, update or trial"""
LONGEST = 0.03
"""seconds from a record to the kill: records are milliseconds apart, and so are checkpoints"""
SAVING = 0.3
"""seconds to wait for a save in addition, where the kill should come during one"""


class Snapshot(NamedTuple):
    """Progress of a run, read from its directory."""

    config: int
    """when config.yaml was written, which every process does once [ns]"""
    metrics: int
    """inode of metrics.jsonl: a resumed run that drops records writes it anew"""
    lines: int
    judged: int
    """when evaluation.json or scores.npz was written, shortly before the end [ns]"""
    unfinished: frozenset[str]
    """checkpoints that are being written, and files that end in the middle of a line"""

    def phase(self, after: "Snapshot", total: int) -> str:
        if after.config == self.config:
            return "start-up"
        if after.is_saving(self):
            return "saving"
        if max(self.lines, after.lines) >= total:
            return "finishing"
        return "compiling" if (self.metrics, self.lines) == after[1:3] else "working"

    def is_saving(self, before: "Snapshot") -> bool:
        return bool(self.unfinished - before.unfinished)


def look(run_dir: Path) -> Snapshot:
    def stat(path: Path, name: str) -> int:
        return int(getattr(path.stat(), name)) if path.exists() else 0

    judged = (run_dir / name for name in ("evaluation.json", "scores.npz"))
    lines = (run_dir / name for name in ("metrics.jsonl", "study.journal"))
    torn = (f"{path.name} {path.stat().st_size}" for path in lines if _is_torn(path))
    return Snapshot(
        config=stat(run_dir / "config.yaml", "st_mtime_ns"),
        metrics=stat(run_dir / "metrics.jsonl", "st_ino"),
        lines=count_records(run_dir),
        judged=max(stat(path, "st_mtime_ns") for path in judged),
        unfinished=frozenset({*torn, *(each.name for each in run_dir.glob("checkpoints/*.tmp"))}),
    )


def _is_torn(path: Path) -> bool:
    return path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")


def strike(work: Work, run_dir: Path, cache: Path, target: int, rng: random.Random) -> str | None:
    """Start, or continue, a run, and kill it after `target` records, often while it saves.

    Now and then it is killed within three seconds instead. Return the phase that it was in; None if
    it has ended before.
    """
    before, begun = look(run_dir), time.monotonic()
    process = work.start(run_dir, cache)
    early = begun + rng.uniform(0, 3) if before.config and rng.random() < 0.25 else float("inf")
    while process.poll() is None and time.monotonic() < early:
        now = look(run_dir)
        if now.config != before.config and now.lines >= target:
            break
        time.sleep(0.0005)
    is_late, awaits_save = target == work.total, rng.random() < 0.5
    end = time.monotonic() + rng.uniform(0, 1.0 if is_late else LONGEST)
    if awaits_save and not is_late:
        end += SAVING
    while time.monotonic() < min(end, early):
        now = look(run_dir)
        if now.judged not in (0, before.judged) or (awaits_save and now.is_saving(before)):
            break
        time.sleep(0.0005)
    process.kill()
    process.ended(-9, 0)
    return before.phase(look(run_dir), work.total) if process.returncode else None


def kill_and_compare(work: Work, folder: Path, *, kills: int, seed: int) -> dict[str, Any]:
    """Kill a run so many times, or until it has ended, and let it end.

    The undisturbed run compiles everything itself, the others read from JAX's cache.

    Raises:
        AssertionError: if it ends differently from the undisturbed run.

    Returns:
        counts, for the table in docs/explanation/reliability.md.
    """
    begun, rng, late = time.monotonic(), random.Random(seed), max(1, round(FINISHING * kills))
    reference, killed, cache = folder / "reference", folder / "killed", folder / "cache"
    work.run(reference, cache)
    expected = work.result(reference)
    targets = sorted(rng.randrange(work.total) for _ in range(kills - late))
    trials: list[dict[str, Any]] = []
    phases: Counter[str] = Counter()
    for number, target in enumerate([*targets, *[work.total] * late], start=1):
        found = strike(work, killed, cache, target, rng)
        if found is None:
            break
        phases[found] += 1
        if work.name == "sweep" and found != "start-up":
            trials = _kept_trials(killed, trials)
        print(f"kill {number}: {found}, {count_records(killed)} records", flush=True)
    work.run(killed, cache)
    assert work.result(killed) == expected, "the killed run ended differently"
    return {
        "work": work.name,
        "kills": sum(phases.values()),
        "phases": {each: phases[each] for each in PHASES},
        "seed": seed,
        "records": len(expected["records"]),
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "commit": commit(9),
        "equal to the uninterrupted run": True,
    }


def _kept_trials(run_dir: Path, before: list[Any]) -> list[Any]:
    path = run_dir / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    trials = [each for each in map(json.loads, lines) if each["kind"] == "trial"]
    assert trials[: len(before)] == before, "a finished trial was changed"
    return trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    counts = kill_and_compare(WORKS[args.work], folder, kills=args.kills, seed=args.seed)
    print(json.dumps(counts, indent=1))
    if args.json:
        args.json.write_text(json.dumps(counts, indent=1) + "\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
