"""The command `metaevo`: overview, help and unknown commands."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import metaevo
from metaevo.__main__ import COMMANDS, examples_of, help_of
from metaevo.commands.run_options import run_parser
from metaevo.config import flatten, to_dict
from metaevo.evolution import hosts
from metaevo.studies.settings import experiment_class
from metaevo.studies.sweeps import sweep_class
from metaevo.training.settings import training_class

ROOT = Path(__file__).parent.parent.parent
SETTINGS = {
    "evolve": lambda: experiment_class({"evolve": "value_loss"}, None)(),
    "evaluate": lambda: experiment_class({"evolve": "value_loss"}, None)(),
    "distill": lambda: experiment_class({"evolve": "value_loss"}, None)(),
    "train": lambda: training_class({})(),
    "sweep": lambda: sweep_class({})(),
}
MORE_FLAGS = {
    "evolve": {"comparison", "config", "generations", "devices", "evolution-seeds"},
    "evaluate": {"comparison", "run-dir", "name", "unseen", "trust-source"},
    "distill": {"into", "name", "formulas", "evaluations", "slot", "trust-source"},
    "train": {"config"},
    "sweep": {"config", "dry-run", "worker"},
}


def run(*argv, cwd=ROOT, **environment):
    return subprocess.run(
        [sys.executable, "-m", "metaevo", *argv], cwd=cwd, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.smoke
def test_what_answers_at_once_imports_no_jax():
    code = (
        "import sys; from metaevo.__main__ import main\n"
        "for argv in ([], ['--help'], ['--version'], ['train', '--help'], ['evolve', '-h'],\n"
        "             ['sweep', '--config', 'x', '--help'], ['evaluate', '--help'],\n"
        "             ['distill', '--help']):\n"
        "    assert main(argv) == 0\n"
        "slow = {'jax', 'flax', 'numpy', 'matplotlib', 'optuna', 'tqdm'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    overview = done.stdout.partition("metaevo evolve --quick")[0]
    assert all(f"\n  {name} " in overview for name in COMMANDS)
    assert f"metaevo {metaevo.__version__}\n" in done.stdout
    assert help_of("train") in done.stdout


@pytest.mark.parametrize("name", SETTINGS)
def test_the_short_help_names_what_there_is(name):
    text = help_of(name)
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    settings = SETTINGS[name]()
    sections = [each.name for each in dataclasses.fields(settings)]
    known = {*sections, *flatten(to_dict(settings)), "task.env_params.KEY", *MORE_FLAGS[name]}
    if name not in ("evaluate", "distill"):
        parser = run_parser(name, None)
        hosts.add_flags(parser)
        known |= {each[2:] for each in parser._option_string_actions}
    _, flags, rest = text.partition("\nflags\n")
    named = set(re.findall(r"(?m)^  --([\w.-]+)", rest))
    assert flags
    assert len(named) >= 8
    assert named <= known
    assert f"metaevo {name}" in examples_of(name)


def test_a_wrong_command_is_one_line():
    done = run("trian")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown command 'trian' (did you mean train?)")
    assert done.stderr.count("\n") == 1


def test_a_platform_that_is_not_there_is_one_line():
    script = [sys.executable, "experiments/train.py"]
    env = {**os.environ, "JAX_PLATFORMS": "nonsense"}
    done = subprocess.run(script, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: JAX_PLATFORMS = nonsense")
    assert "Traceback" not in done.stderr
