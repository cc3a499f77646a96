"""A study is data: nothing that somebody wrote into it runs, wherever it is kept."""

import contextlib
import json
import pickle
import sqlite3
from pathlib import Path

import pytest

from metaevo.config import ConfigError
from metaevo.tuning import storage as storages
from metaevo.tuning.study import Study
from tests.metaevo.tuning.conftest import complete


class Command:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def write_into_journal(directory, attributes):
    path = directory / storages.JOURNAL
    lines = path.read_text().splitlines()
    created = next(i for i, line in enumerate(lines) if json.loads(line)["op_code"] == 4)
    line = {"op_code": 9, "worker_id": "somebody", "trial_id": 0}
    lines[created + 1 : created + 1] = [
        json.dumps(line | {"system_attr": {key: value}}) for key, value in attributes.items()
    ]
    path.write_text("\n".join(lines) + "\n")


def write_into_database(directory, attributes):
    with contextlib.closing(sqlite3.connect(directory / "study.db")) as database:
        (trial,) = database.execute("select min(trial_id) from trials").fetchone()
        for key, value in attributes.items():
            database.execute(
                "insert or replace into trial_system_attributes (trial_id, key, value_json)"
                " values (?, ?, ?)",
                (trial, key, json.dumps(value)),
            )
        database.commit()


@pytest.mark.parametrize(
    ("write", "is_open"),
    [(write_into_journal, False), (write_into_database, True)],
)
def test_no_pickle_in_a_study_is_loaded(tmp_path, make_config, space, quadratic, write, is_open):
    is_database = write is write_into_database
    url = f"sqlite:///{tmp_path}/study.db" if is_database else None
    config = make_config(trials=12, sampler="cma_es", storage=url)
    attack = pickle.dumps(Command(tmp_path / "executed")).hex()
    attributes = {f"{kind}:optimizer:0": attack for kind in ("cma", "sepcma", "cmawm")}

    def search(batches):
        with Study(tmp_path, config, space, seed=0) as study:
            for batch in range(batches):
                if batch == 1 and is_open:
                    write(tmp_path, attributes)  # as any other writer of a shared study can
                for trial in study.ask(3):
                    study.tell(complete(trial, quadratic(trial.params)))

    search(2 if is_open else 1)
    if not is_open:
        write(tmp_path, attributes)
    with contextlib.suppress(ConfigError):
        search(2)
    assert not (tmp_path / "executed").exists()
