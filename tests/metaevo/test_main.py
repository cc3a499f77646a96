import os
import subprocess
import sys

import pytest

import metaevo
from metaevo.__main__ import COMMANDS
from tests.processes import ROOT, python


@pytest.mark.smoke
def test_help_and_version_do_not_import_jax():
    code = (
        "import sys; from metaevo.__main__ import main\n"
        "for argv in ([], ['--help'], ['--version'], ['train', '--help'], ['evolve', '-h'],\n"
        "             ['sweep', '--config', 'x', '--help'], ['evaluate', '--help'],\n"
        "             ['distill', '--help']):\n"
        "    try: assert main(argv) == 0\n"
        "    except SystemExit as end: assert not end.code\n"
        "slow = {'jax', 'flax', 'numpy', 'matplotlib', 'optuna'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    overview = done.stdout.partition("metaevo evolve --quick")[0]
    assert all(f"\n  {name} " in overview for name in COMMANDS)
    assert f"metaevo {metaevo.__version__}\n" in done.stdout
    assert "settings used most:\n  --learner NAME" in done.stdout


@pytest.mark.parametrize("argv", [["--help"], ["zoo"]])
def test_a_closed_pipe_is_silent(argv):
    read, write = os.pipe()
    os.close(read)  # as `| head` does
    done = subprocess.run(
        [sys.executable, "-m", "metaevo", *argv], cwd=ROOT, stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_table_is_printed_in_any_encoding(encoding):
    done = python("-m", "metaevo", "zoo", env={**os.environ, "PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (0, "")
    line = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" if encoding == "utf-8" else "?"
    assert 4 * line in done.stdout


def test_a_platform_that_is_not_there_is_one_line():
    done = python("experiments/train.py", env={**os.environ, "JAX_PLATFORMS": "nonsense"})
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: JAX_PLATFORMS = nonsense")
    assert "Traceback" not in done.stderr


PROGRAM = """
import sys
import purerl
from purerl import dqn, fast, lpg, ppo, pqn, q_learning, types
import metaevo
from metaevo import parts, statistics
from metaevo.commands import distill, evaluate, evolve, generality, judge, sweep, train
import jax
jax.config.update("jax_num_cpu_devices", 3)  # refused once a backend has started
import metaevo.studies.api, metaevo.studies.sweeps, metaevo.training.run
print(len(jax.devices("cpu")), purerl.envs.make("CartPole-v1")[0].name)
drawing = {"seaborn", "matplotlib", "pandas", "scipy.stats"}
assert not drawing & set(sys.modules), drawing & set(sys.modules)

from gymnax.environments.misc import pong
assert len(pong.sns.color_palette("husl", 8)) == 8
figure = pong.plt.figure()

import matplotlib.pyplot
import seaborn
assert matplotlib.pyplot.fignum_exists(figure.number)
assert seaborn.__file__ and matplotlib.pyplot.__file__
"""


@pytest.mark.long
def test_backends_and_plotting_libraries_wait_for_their_first_use():
    env = {"PATH": "", "JAX_PLATFORMS": "cpu", "MPLBACKEND": "Agg"}
    done = python("-c", PROGRAM, env=env, check=True)
    assert done.stdout.split() == ["3", "CartPole-v1"]
