"""Scripts that run with the packages of this commit or of another one."""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import ROOT
from experiments.benchmarks.processes import BenchmarkError


def is_commit(revision: str) -> bool:
    """Return whether git knows a commit by this name."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"]
    return not subprocess.run(command, capture_output=True, check=False).returncode


@contextmanager
def files_of(revision: str) -> Iterator[Path]:
    """The files of another commit of this repository, in a folder that is removed in the end."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        yield folder


def run_with(
    folder: Path, script: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a script in a new process with the packages in a folder.

    Args:
        folder: with a commit's files.
        script: prints a line of JSON as its last one; `package` in it is a file of the packages.
        *arguments: of the script.
        environment: variables besides those that there are.

    Returns:
        what that line says.

    Raises:
        BenchmarkError: if the script fails, or has imported the packages from elsewhere.
    """
    command = [sys.executable, str(script), *arguments]
    variables = {**os.environ, "PYTHONPATH": str(folder), **(environment or {})}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    what = f"{script.name} {' '.join(arguments)}"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"{what} fails with the packages in {folder}: {reason}")
    result = json.loads(done.stdout.splitlines()[-1])
    if not Path(result["package"]).is_relative_to(folder):
        raise BenchmarkError(f"{what} took the packages in {result['package']}, not in {folder}")
    return dict(result)
