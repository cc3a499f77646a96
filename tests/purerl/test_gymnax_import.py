"""Modules that only draw are imported late."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


SCRIPTS = "metaevo.commands.evolve", "metaevo.commands.train", "metaevo.commands.sweep"
PROGRAM = """
import sys
import purerl.envs
import SCRIPTS

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


def test_gymnax_and_scripts_leave_drawing_for_later():
    program = PROGRAM.replace("SCRIPTS", ", ".join(SCRIPTS))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_an_earlier_import_is_left_alone():
    program = "import seaborn, sys, purerl.envs; assert sys.modules['seaborn'] is seaborn"
    program += "; from gymnax.environments.misc import pong; assert pong.sns is seaborn"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
