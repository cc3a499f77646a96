import pytest

from purerl import fast


@pytest.fixture
def gpu_layout():
    fast.trace_for("cuda")
    yield
    fast.trace_for(None)
