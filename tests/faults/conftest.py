import pytest

from tests.faults.works import WORKS


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, cache):
    found = {}

    def run(name):
        if name not in found:
            found[name] = tmp_path_factory.mktemp(f"undisturbed_{name}") / "run"
            WORKS[name].run(found[name], cache)
        return found[name]

    return run
