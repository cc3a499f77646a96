"""What the tests of commands share: refusals, and processes that die."""

import contextlib

import pytest


@pytest.fixture
def refused(capsys):
    """Call a command that refuses its arguments with exit code 2; its only line on stderr."""

    def call(main, *args, **kwargs):
        with pytest.raises(SystemExit) as end:
            main(*args, **kwargs)
        (line,) = capsys.readouterr().err.splitlines()
        assert end.value.code == 2
        assert line.startswith("error: ")
        return line

    return call


class KilledError(BaseException):
    """What ends a process without warning; nothing in the product catches it."""


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
