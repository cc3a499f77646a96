"""A resumed run, and the command that continues it."""

import pytest

from metaevo.__main__ import main
from metaevo.runs.run_directory import RunDirectory


@pytest.mark.parametrize(
    ("command", "job_type", "writer"),
    [
        ("train", "evolution", "evolve"),
        ("train", "sweep", "sweep"),
        ("evolve", "train", "train"),
        ("sweep", "evolution", "evolve"),
    ],
)
def test_the_command_that_continues_a_run_is_named(command, job_type, writer, tmp_path, refused):
    run = RunDirectory.create(tmp_path / "run", "test")
    run.write_config({"learner": "ppo"}, {"job_type": job_type})
    line = refused(main, [command, "--resume", "--run-dir", str(run.path)])
    assert line.endswith(f"metaevo {writer} --resume --run-dir {run.path}")
