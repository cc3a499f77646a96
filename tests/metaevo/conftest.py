import jax
import pytest

_COMPILED = "/jax/core/compile/backend_compile_duration"
_count = [0]


def _listen(event, duration, **_):
    del duration
    _count[0] += event == _COMPILED


jax.monitoring.register_event_duration_secs_listener(_listen)


@pytest.fixture
def compilations():
    """A function that returns how many programs XLA has compiled since the test began."""
    start = _count[0]
    return lambda: _count[0] - start
