"""Generated command lines and config files for the scripts, and what becomes of them.

A script gets as far as opening its run directory, after which it would compile: until there all
settings are read and checked.
"""

import contextlib
import io
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from hypothesis import strategies as st

from metaevo.__main__ import main
from metaevo.config import dump_yaml, flatten, from_dict, load_yaml, merge, to_dict
from metaevo.evolution import devices
from metaevo.parts import learners
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.settings import settings_class
from metaevo.studies.sweeps import sweep_class
from metaevo.training.settings import training_class
from purerl import envs
from tests.processes import ROOT

MEMORY = 8 * 2**30
"""Of whatever machine this is."""


class ReachedError(BaseException):
    """All settings are accepted; no handler of exceptions may hide that."""


class Script(NamedTuple):
    """A command, up to the moment when it opens its run directory."""

    command: str
    settings_class: Any
    folder: str

    @property
    def presets(self) -> list[Path]:
        """Those that need no suite of environments."""
        paths = sorted((ROOT / "configs" / self.folder).glob("*.yaml"))
        return [path for path in paths if "/" not in str(load_yaml(path).get("task", ""))]

    def attempt(self, argv: list[str]) -> str | None:
        """Return the complaint about a command line; None if it would have been run.

        Raises AssertionError if the complaint is no single line, and whatever else escapes.
        """
        stderr, code = io.StringIO(), None
        try:
            with contextlib.redirect_stderr(stderr), _stopped():
                main([self.command, *argv])
        except ReachedError:
            return None
        except SystemExit as end:
            code = end.code
        text = stderr.getvalue()
        assert code == 2, text
        assert text.startswith("error: "), text
        assert text.endswith("\n"), text
        assert len(text.splitlines()) == 1, text
        return text


@contextlib.contextmanager
def _stopped():
    def reached(*_, **__):
        raise ReachedError

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(RunDirectory, "create", reached))
        stack.enter_context(patch.object(devices, "memory_bytes", lambda: MEMORY))
        yield


SCRIPTS = {
    "evolve_value_loss": Script("evolve", settings_class, "evolve_value_loss"),
    "evolve_drift": Script("evolve", settings_class, "evolve_drift"),
    "train": Script("train", training_class, "train"),
    "sweep": Script("sweep", sweep_class, "sweep"),
}


WORDS = [
    "", " ", "~", "nan", ".nan", "-.inf", "1e400", "true", "null", "-1", "0", "1e3", "/", "..",
    "../../x", "/etc/passwd", "\0", "a\nb", "\u2028", "\ud7ff", "\U0001f4a5", "x" * 300, "{", "[",
    "!!python/object:os.system", "&a [*a]", "<script>alert(1)</script>", "%s%n", "own", "auto",
    "none", "index", "local", "sqlite:///x", "tanh", "relu", "grid", "hyperband", "cma_es",
    "ppo", "dqn", "q_learning", "value_loss", "drift", "Open_ES", "CMA_ES", "PSO",
    "DiffusionEvolution", *envs.names()[:12],
    *(name for each in learners.LEARNERS for slot in learners.find(each).slots
      for name in slot.functions),
]  # fmt: skip
EDGES = [
    0, -1, 1, 2, 3, 4, 5, 7, 8, 16, 100, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63,
    10**9, 10**12, 10**15, -(10**12), 10**30, 10**400,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 0.5, 1.0, 1.5, -1e-9, 1e-300, 5e-324, 1e38, 1e39, 1e308, float("inf"),
    -float("inf"), float("nan"),
]  # fmt: skip

numbers = st.sampled_from(EDGES) | st.sampled_from(FLOATS) | st.integers(-10, 300) | st.floats()
text = st.characters(codec="utf-8")
scalars = st.none() | st.booleans() | numbers | st.sampled_from(WORDS) | st.text(text, max_size=5)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(text, max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Values of the same type as a setting's, which get further."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int | float):
        factors = st.sampled_from([0, 0.5, 1, 2, 3, 10, 1000, 1e6, 1e12])
        return factors.map(lambda factor: type(value)(value * factor)) | numbers
    if isinstance(value, str):
        return st.sampled_from(WORDS)
    if isinstance(value, list) and value:
        return st.lists(_like(value[0]), max_size=3)
    if isinstance(value, dict) and value:
        return st.fixed_dictionaries({key: _like(each) for key, each in value.items()})
    return values


def _nest(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


class Attempt(NamedTuple):
    config: dict[str, Any]
    overrides: list[str]


@st.composite
def attempts(draw: Any, script: Script) -> Attempt:
    raw = load_yaml(draw(st.sampled_from(script.presets)))
    known = flatten(to_dict(from_dict(script.settings_class(raw), raw)))
    overrides: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from(sorted(known)))
        if not draw(st.integers(0, 5)):  # a section, an unknown key, or a key below a value
            key = draw(st.sampled_from([key.partition(".")[0], key + ".x", key + "x", "x." + key]))
        value = draw(_like(known.get(key)) | values)
        if draw(st.booleans()):
            raw = merge(raw, _nest(key, value))
        else:
            shown = value if isinstance(value, str) else dump_yaml([value], flow=True)[1:-2]
            overrides += [f"--{key}", shown]
    return Attempt(raw, overrides)
