"""Break the product on purpose, and see whether the tests notice.

    python tests/mutations/run.py [NAME ...] [--tree PATH] [--jobs N] [--timeout SECONDS]

Every mutant of `mutants.toml` is applied to a scratch copy of the tree, where its tests run. It is
caught if they fail and survives if they pass. The exit code is 0 if all were caught, 1 if some
survived, and 2 if a mutant does not apply: its text must occur exactly once in its file.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
COPIED = ("purerl", "metaevo", "experiments", "examples", "configs", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "Makefile", "constraints.txt", "mkdocs.yml")
NO_TESTS = (4, 5)
"""Exit codes of pytest for a test that does not exist, and for none at all."""


@dataclass(frozen=True)
class Mutant:
    """A fault, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, tree: Path) -> str:
        """Return the mutated text of the file.

        Raises:
            ValueError: if the old text does not occur exactly once.
        """
        text = (tree / self.file).read_text() if (tree / self.file).is_file() else ""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: occurs {count} times in {self.file}: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """The result of the tests of a mutant."""

    name: str
    result: str
    """`caught`, `survived`, `timeout` or `no tests`"""
    seconds: float
    """CPU seconds"""
    failed: str
    """the first test that failed"""


def read_mutants(names: list[str]) -> list[Mutant]:
    entries = tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]
    found = [Mutant(**{**each, "tests": tuple(each["tests"])}) for each in entries]
    known = [each.name for each in found]
    if len(set(known)) < len(known) or (unknown := set(names) - set(known)):
        raise ValueError(f"unknown or repeated names: {sorted(unknown) if names else known}")
    return [each for each in found if not names or each.name in names]


def copy(tree: Path, scratch: Path) -> None:
    skip = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
    for name in COPIED:
        shutil.copytree(tree / name, scratch / name, symlinks=True, ignore=skip)
    for name in FILES:
        shutil.copy(tree / name, scratch / name)


def run_tests(mutant: Mutant, scratch: Path, python: str, jobs: str, timeout: float) -> Outcome:
    environment = {**os.environ, "PYTHONPATH": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        python, "-m", "pytest", "-q", "-x", "-n", jobs, "-p", "no:cacheprovider", "--no-header",
        "-m", "not slow and not faults and not postgres", *mutant.tests,
    ]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return Outcome(mutant.name, "timeout", timeout, "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    failed = lines[0].split(" - ")[0].split(maxsplit=1)[1] if lines else ""
    if done.returncode in NO_TESTS:
        return Outcome(mutant.name, "no tests", seconds, "")
    return Outcome(mutant.name, "caught" if done.returncode else "survived", seconds, failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutants to run; by default all")
    parser.add_argument("--tree", type=Path, default=HERE.parents[1], help="the tree to mutate")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the tests")
    parser.add_argument("--jobs", default="0", help="processes of pytest-xdist")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each mutant")
    parser.add_argument("--check", action="store_true", help="only check that all mutants apply")
    arguments = parser.parse_args()
    try:
        mutants = read_mutants(arguments.names)
    except ValueError as error:
        print(error)
        return 2
    failures, texts = [], {}
    for mutant in mutants:
        try:
            texts[mutant.name] = mutant.applied(arguments.tree)
        except ValueError as error:
            failures.append(str(error))
    if failures or arguments.check:
        print("\n".join(failures) or f"all {len(mutants)} mutants apply")
        return 2 if failures else 0
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        scratch, programs = Path(folder) / "tree", Path(folder) / "programs"
        copy(arguments.tree, scratch)
        if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # most programs are those of others
            os.environ |= {
                "JAX_COMPILATION_CACHE_DIR": str(programs),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            }
        print("| mutant | result | CPU s | first failing test |\n|---|---|---:|---|", flush=True)
        for mutant in mutants:
            file = scratch / mutant.file
            original = file.read_text()
            file.write_text(texts[mutant.name])
            outcome = run_tests(
                mutant, scratch, arguments.python, arguments.jobs, arguments.timeout
            )
            file.write_text(original)
            outcomes.append(outcome)
            where = f"`{outcome.failed.removeprefix('tests/')}`" if outcome.failed else ""
            row = f"| {outcome.name} | {outcome.result} | {outcome.seconds:.0f} | {where} |"
            print(row, flush=True)
    caught = sum(each.result == "caught" for each in outcomes)
    print(f"\n{caught} of {len(outcomes)} caught, {sum(e.seconds for e in outcomes):.0f} CPU s")
    return 0 if caught == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
