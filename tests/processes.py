"""Commands as a user's shell starts them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def python(*words: object, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run Python with these words, in the repository unless told otherwise; what it printed."""
    options = {"cwd": ROOT, "timeout": 550, "check": False, **options}
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, **options
    )


def metaevo(*words: str, cwd: Path = ROOT) -> str:
    """Run a command that has to succeed, without the variables of the tests; what it printed."""
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    done = python("-m", "metaevo", *words, cwd=cwd, env=env | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return done.stdout
