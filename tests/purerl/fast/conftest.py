import pytest

from purerl import fast
from purerl.fast import switch


@pytest.fixture
def plain_arithmetic(monkeypatch):
    monkeypatch.setattr(switch, "_in_use", False)


@pytest.fixture
def gpu_layout():
    fast.trace_for("cuda")
    yield
    fast.trace_for(None)
