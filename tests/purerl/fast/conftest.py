"""Fixtures of the tests of `purerl.fast`."""

import pytest

from purerl import fast
from purerl.fast import switch


@pytest.fixture
def plain_arithmetic(monkeypatch):
    monkeypatch.setattr(switch, "_in_use", False)


@pytest.fixture
def gpu_layout():
    """Trace as for a GPU."""
    fast.trace_for("cuda")
    yield
    fast.trace_for(None)
