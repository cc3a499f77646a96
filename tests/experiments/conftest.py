import pytest

from tests.experiments.evolving import TINY


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the file's settings; processes keep compiled programs there."""
    path = tmp_path_factory.mktemp("place")
    (path / "tiny.yaml").write_text(TINY)
    return path
