"""What gymnax draws with is imported when it draws, and is nobody else's stand-in."""

import subprocess
import sys

import pytest

from purerl.envs.gymnax_import import StandIn

PROGRAM = """
import sys
import purerl.envs

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


def test_gymnax_leaves_drawing_for_later():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)


def test_an_earlier_import_is_left_alone():
    program = "import seaborn, sys, purerl.envs; assert sys.modules['seaborn'] is seaborn"
    program += "; from gymnax.environments.misc import pong; assert pong.sns is seaborn"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_module_can_be_used_while_the_stand_in_is_in_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "colorsys", StandIn("colorsys"))
    assert sys.modules["colorsys"].rgb_to_hsv(1.0, 1.0, 1.0) == (0.0, 0.0, 1.0)
    assert sys.modules["colorsys"].__file__


def test_what_a_module_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = StandIn("json").no_such_thing
    with pytest.raises(AttributeError, match="__path__"):
        _ = StandIn("json").__path__
