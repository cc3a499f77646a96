import contextlib

import pytest

from tests.experiments.evolving import TINY


class KilledError(BaseException):
    """What ends a process without warning; nothing in the product catches it."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the file's settings; processes keep compiled programs there."""
    path = tmp_path_factory.mktemp("place")
    (path / "tiny.yaml").write_text(TINY)
    return path


@pytest.fixture
def killed_at(monkeypatch):
    """Let the process die in the call of that number."""

    @contextlib.contextmanager
    def die(owner, name, count):
        real, calls = getattr(owner, name), []

        def call(*args, **kwargs):
            calls.append(args)
            if len(calls) == count:
                raise KilledError
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, call)
            with pytest.raises(KilledError):
                yield

    return die
