"""Memory and open files of a run do not grow; tests/faults/soak.py alone runs for longer."""

import pytest

from tests.faults.soak import COMMANDS, watch

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

SECONDS = 60
GROWTH = 4.0
"""MiB, over the time that is watched: allocators keep what they may need again."""


@pytest.mark.parametrize("name", COMMANDS)
def test_memory_and_open_files_do_not_grow(name):
    found = watch(name, SECONDS, records=21)
    print(found)
    assert found["code"] == 143
    assert found["records"] > 20
    assert found["files"][1] <= found["files"][0]
    assert found["mib"][1] - found["mib"][0] < GROWTH
