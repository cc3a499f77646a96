"""The run that `latest` stands for."""

import os
from pathlib import Path

import pytest

from metaevo.commands.run_options import run_parser
from metaevo.comparison import sources
from metaevo.config import ConfigError
from metaevo.runs.latest import run_path


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder to work in, and a function that makes a run in it that began at a time."""
    monkeypatch.chdir(tmp_path)

    def make(path: str, began: int) -> Path:
        config = Path(path) / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("config: {}\nresolved: {}\nenvironment: {}\n")
        os.utime(config, (began, began))
        return Path(path)

    return make


def test_it_is_the_run_that_began_last(runs):
    runs("runs/train/b", 1)
    latest = runs("runs/evolve_value_loss/a", 3)
    runs("runs/c", 2)
    runs("runs/evolve_value_loss/a/transfer/later", 4)  # within a run
    runs("elsewhere/d", 5)
    assert run_path("latest") == latest
    assert run_parser("train").parse_args(["--run-dir", "latest"]).run_dir == latest
    runs("runs/train/e", 6)
    assert run_path("latest") == Path("runs/train/e")
    assert run_path("runs/c") == Path("runs/c")


def test_without_a_run_there_is_one_clear_error(runs):
    for named in (lambda: run_path("latest"), lambda: sources.read_all(["latest"], [])):
        with pytest.raises(ConfigError, match="latest: there is no run under runs/"):
            named()
