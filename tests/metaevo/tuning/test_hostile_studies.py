import contextlib
import json
import pickle
import sqlite3

import pytest

from metaevo.tuning import storage as storages
from metaevo.tuning.study import Study
from tests.faults.damage import Bomb
from tests.metaevo.tuning.conftest import complete


def write_into_journal(directory, trial, attributes):
    line = {"op_code": 9, "worker_id": "somebody", "trial_id": trial}
    with (directory / storages.JOURNAL).open("a") as file:
        for key, value in attributes.items():
            file.write(json.dumps(line | {"system_attr": {key: value}}) + "\n")


def write_into_database(directory, trial, attributes):
    with contextlib.closing(sqlite3.connect(directory / "study.db")) as database:
        database.executemany(
            "insert into trial_system_attributes (trial_id, key, value_json) values (?, ?, ?)",
            [(1 + trial, key, json.dumps(value)) for key, value in attributes.items()],
        )
        database.commit()


@pytest.mark.parametrize("write", [write_into_journal, write_into_database])
def test_no_pickle_in_a_study_is_loaded(tmp_path, make_config, space, quadratic, write):
    """Any other writer of a shared study can write one into a trial that runs."""
    url = f"sqlite:///{tmp_path}/study.db" if write is write_into_database else None
    config = make_config(trials=9, sampler="cma_es", storage=url)
    attack = pickle.dumps(Bomb(tmp_path / "executed")).hex()
    attributes = {f"{kind}:optimizer:0": attack for kind in ("cma", "sepcma", "cmawm")}
    with Study(tmp_path, config, space, seed=0) as study:
        for _ in range(3):
            for trial in study.ask(3):
                if trial.number == 4:
                    write(tmp_path, 4, attributes)
                study.tell(complete(trial, quadratic(trial.params)))
    assert len(Study(tmp_path, config, space, seed=0).trials()) == 9
    assert not (tmp_path / "executed").exists()
