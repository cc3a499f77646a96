"""A command as a user's shell starts it: without the variables of the tests' own process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def metaevo(*words: str, cwd: Path = ROOT) -> str:
    """Run a command that has to succeed; what it printed."""
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    command = [sys.executable, "-m", "metaevo", *words]
    done = subprocess.run(
        command, cwd=cwd, env=env | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
