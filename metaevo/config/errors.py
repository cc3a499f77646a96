"""Errors of users and disks: one line and an exit code, without a traceback."""

import contextlib
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import Any


class ConfigError(ValueError):
    """A setting, an argument or a file is wrong; the message is a single line.

    Examples:
        >>> try:
        ...     metaevo.LearnerProblem("q_learnin")
        ... except metaevo.ConfigError as error:
        ...     message = str(error)
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@contextlib.contextmanager
def exit_on_config_error() -> Iterator[None]:
    """Print a ConfigError as `error: <message>` and exit with its code; also a decorator."""
    try:
        yield
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None


class DiskError(ConfigError):
    """A disk cannot be read or written; the message is a single line."""

    exit_code = os.EX_IOERR


class DeviceError(ConfigError):
    """A compiled program failed on a device; the message is a single line."""

    exit_code = 1


def failure(what: str, error: BaseException) -> ConfigError:
    """Return a one-line error for code of the user's that has raised another one."""
    text = textwrap.shorten(f"{type(error).__name__}: {error}", 500, placeholder=" ...")
    return ConfigError(f"{what}: {text}")


def show(value: Any) -> str:
    """Return the shortened repr of a value, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]} ... {text[-15:]}"
