"""Break the product on purpose, and see whether the tests notice.

    python tests/mutations/run.py [NAME ...] [--check]

Every mutant of `mutants.toml` is applied to a scratch copy of the tree, where its tests run. It is
caught if they fail and survives if they pass. The exit code is 0 if all were caught, 1 if some
survived, and 2 if a mutant does not apply: its text must occur exactly once in its file.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("purerl", "metaevo", "experiments", "examples", "configs", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "Makefile", "constraints.txt", "mkdocs.yml")
SECONDS = 600
NO_TESTS = (4, 5)
"""Exit codes of pytest for a test that does not exist, and for none at all."""


@dataclass(frozen=True)
class Mutant:
    """A fault, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    def applied(self) -> str:
        """Return the mutated text of the file; exit if the old text does not occur just once."""
        text = (ROOT / self.file).read_text() if (ROOT / self.file).is_file() else ""
        if (count := text.count(self.old)) != 1:
            print(f"{self.name}: occurs {count} times in {self.file}: {self.old!r}")
            sys.exit(2)
        return text.replace(self.old, self.new)

    def run(self, tree: Path) -> tuple[str, str]:
        """Return the result of its tests in a copy of the tree, and the first test that failed."""
        command = [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header",
            "-m", "not slow and not faults and not postgres", *self.tests,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        options = {"cwd": tree, "env": environment, "timeout": SECONDS}
        (tree / self.file).write_text(self.applied())
        try:
            done = subprocess.run(command, capture_output=True, text=True, **options)
        except subprocess.TimeoutExpired:
            return "timeout", ""
        finally:
            shutil.copy(ROOT / self.file, tree / self.file)
        if done.returncode in NO_TESTS:
            return "no tests", ""
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        failed = lines[0].split(" - ")[0].split("tests/", 1)[1] if lines else ""
        return "caught" if done.returncode else "survived", failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutants to run; by default all")
    parser.add_argument("--check", action="store_true", help="only check that all mutants apply")
    arguments = parser.parse_args()
    entries = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]
    mutants = {each["name"]: Mutant(**each) for each in entries}
    unknown = {*arguments.names} - {*mutants}
    if unknown or len(mutants) < len(entries):
        parser.error(f"names that are unknown, or repeated: {unknown or [*mutants]}")
    chosen = [mutants[name] for name in arguments.names or mutants]
    for mutant in chosen:
        mutant.applied()
    if arguments.check:
        print(f"all {len(chosen)} mutants apply")
        return 0
    caught = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        skip = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
        for name in COPIED:
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=skip)
        for name in FILES:
            shutil.copy(ROOT / name, tree / name)
        print("| mutant | result | seconds | first failing test |\n|---|---|---:|---|", flush=True)
        for mutant in chosen:
            begun = time.monotonic()
            result, failed = mutant.run(tree)
            caught += result == "caught"
            seconds = time.monotonic() - begun
            print(f"| {mutant.name} | {result} | {seconds:.0f} | `{failed}` |", flush=True)
    print(f"\n{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
