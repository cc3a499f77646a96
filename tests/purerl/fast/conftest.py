"""What the tests of `purerl.fast` share: the arithmetic of who asks for no other."""

import pytest

from purerl.fast import switch


@pytest.fixture
def plain_arithmetic(monkeypatch):
    monkeypatch.setattr(switch, "_in_use", False)
