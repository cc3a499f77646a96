"""What a resumed run may take from its own directory, and what its user has to confirm."""

from argparse import Namespace

import pytest

from metaevo.__main__ import main
from metaevo.commands.run_options import settings_to_resume
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory

STORAGE = "postgresql+psycopg://me:secret@elsewhere/trials"


@pytest.fixture
def directory(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "sweep")
    run.write_config({"learner": "ppo", "run": {}, "sweep": {"storage": STORAGE}}, {})
    return run.path


def flags(directory, confirmed=False):
    return Namespace(run_dir=directory, wandb=None, mlflow=None, confirm_destination=confirmed)


def test_a_database_that_only_the_directory_names_is_confirmed(directory):
    with pytest.raises(ConfigError, match=r"sweep\.storage = .*--confirm-destination") as refused:
        settings_to_resume("sweep", flags(directory), {})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("confirmed", "overrides"), [(True, {}), (False, {"sweep": {"storage": STORAGE}})]
)
def test_a_database_that_the_user_names_is_used(directory, confirmed, overrides):
    saved = settings_to_resume("sweep", flags(directory, confirmed), overrides)
    assert saved["sweep"]["storage"] == STORAGE


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
