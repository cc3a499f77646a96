"""What gymnax draws with is imported when it draws, and is nobody else's stand-in."""

import colorsys
import subprocess
import sys
from unittest import mock

import pytest

from purerl.envs.gymnax_import import StandIn

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


def test_a_module_can_be_used_while_the_stand_in_is_in_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "colorsys", StandIn("colorsys"))
    assert sys.modules["colorsys"].rgb_to_hsv(1.0, 1.0, 1.0) == (0.0, 0.0, 1.0)
    assert sys.modules["colorsys"].__file__


def test_what_a_module_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = StandIn("json").no_such_thing


def test_looking_at_it_imports_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    stand_in = StandIn("colorsys")
    with pytest.raises(AttributeError, match="__file__"):
        _ = stand_in.__file__
    assert "colorsys" not in sys.modules
    assert stand_in.rgb_to_hsv
    assert stand_in.__file__ == sys.modules["colorsys"].__file__
    assert "rgb_to_hsv" in dir(stand_in)


def test_changes_are_of_the_module():
    stand_in = StandIn("colorsys")
    with mock.patch.object(stand_in, "rgb_to_hsv", "patched"):
        assert colorsys.rgb_to_hsv == stand_in.rgb_to_hsv == "patched"
    assert colorsys.rgb_to_hsv(1.0, 1.0, 1.0) == (0.0, 0.0, 1.0)


DURING = """
import sys
from importlib.util import find_spec
from types import ModuleType

class Gymnax:  # looks around while it is imported
    def find_spec(name, path=None, target=None):
        if name == "gymnax":
            found.append(find_spec("seaborn"))
            import seaborn.objects
            found.append(seaborn.objects.Plot)
            found.extend({"jax", "flax"} - set(sys.modules))  # none is imported meanwhile
            raise LookupError

found = []
sys.meta_path.insert(0, Gymnax)
try:
    import purerl.envs
except LookupError:
    pass
assert found[0].name == "seaborn" and found[1].__name__ == "Plot" and not found[2:], found
assert type(sys.modules["seaborn"]) is ModuleType
"""


def test_it_can_be_found_and_its_parts_imported_meanwhile():
    subprocess.run([sys.executable, "-c", DURING], check=True, timeout=300)
