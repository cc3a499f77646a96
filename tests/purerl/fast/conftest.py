"""Fixtures of the tests of `purerl.fast`."""

import pytest

from purerl.fast import switch


@pytest.fixture
def plain_arithmetic(monkeypatch):
    monkeypatch.setattr(switch, "_in_use", False)
