import pytest

from tests.processes import python

PROGRAM = """
import sys
import purerl
from purerl import dqn, fast, lpg, ppo, pqn, q_learning, types
import metaevo
from metaevo import parts, statistics
from metaevo.commands import distill, evaluate, evolve, generality, judge, sweep, train
import jax
jax.config.update("jax_num_cpu_devices", 3)  # refused once a backend has started
print(len(jax.devices("cpu")), purerl.envs.make("CartPole-v1")[0].name)

import metaevo.studies.api, metaevo.studies.sweeps, metaevo.training.run
drawing = {"seaborn", "matplotlib.pyplot", "pandas", "scipy.stats"}
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
