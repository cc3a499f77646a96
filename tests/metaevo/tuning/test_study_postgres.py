"""Studies in a real PostgreSQL server, which the tests start themselves: make test-postgres."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.metaevo.tuning import several_processes

pytestmark = pytest.mark.postgres

SERVER = Path(__file__).parents[2] / "postgres" / "server.sh"


@pytest.fixture
def url():
    # Not in tmp_path, which the server's own user may not enter.
    directory = Path(tempfile.mkdtemp(prefix="metaevo-postgres-"))
    try:
        started = subprocess.run(
            [SERVER, "start", directory], capture_output=True, text=True, check=False
        )
        assert started.returncode == 0, started.stderr
        yield started.stdout.strip()
        subprocess.run([SERVER, "stop", directory], check=True, timeout=60)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_a_killed_process_loses_and_repeats_no_trial(tmp_path, url):
    several_processes.check_that_a_killed_process_loses_nothing(tmp_path, url)


def test_simultaneous_processes_share_one_study(tmp_path, url):
    several_processes.check_all_trials(tmp_path, url, "abcd")
