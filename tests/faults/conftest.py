"""Undisturbed runs and a cache of compiled programs, shared by all tests of faults."""

import pytest

from tests.faults.works import WORKS


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Where JAX keeps compiled programs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, cache):
    """A function from the name of a work to the directory of a run that nobody disturbed."""
    found = {}

    def run(name):
        if name not in found:
            found[name] = tmp_path_factory.mktemp(f"undisturbed_{name}") / "run"
            WORKS[name].run(found[name], cache)
        return found[name]

    return run
