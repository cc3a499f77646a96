"""Records of metrics.jsonl."""

import os
import tracemalloc

import numpy as np
import pytest

from metaevo.comparison import run_directories
from metaevo.config import ConfigError
from metaevo.runs.run_directory import RunDirectory


def generation(index, **fields):
    return {"kind": "generation", "generation": index, "frames": 8 * index, "seconds": 0.5} | fields


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "")
    run.write_config({"evolve": "value_loss"}, {"run_id": "a"})
    return run


def test_rows_of_any_types_are_read_as_logged(run):
    rows = [
        generation(0, fitness_mean=1.5, text="a", flag=True, curve=[1.0, None], some=[1]),
        generation(1, fitness_mean=None, text="b", flag=False, curve=[2.0, 3.0], some=[1, 2]),
        generation(2, fitness_mean=3.25, text=None, flag=True, curve=[4.0, 5.0], some="x"),
    ]
    for row in rows:
        run.append_metrics(row)
    records = run.read_metrics("generation")
    assert list(records) == rows
    assert records[-1] == rows[-1]
    np.testing.assert_array_equal(records.column("fitness_mean"), [1.5, np.nan, 3.25])
    np.testing.assert_array_equal(records.column("generation"), [0, 1, 2])
    np.testing.assert_array_equal(records.column("absent"), [np.nan] * 3)


def test_of_several_kinds_each_is_read_at_once(run):
    run.append_metrics(generation(0))
    run.append_metrics({"kind": "evaluation", "evaluation": 0, "name": "n", "iqm": 1.0})
    found = run.read_kinds(["update", "generation", "evaluation"])
    assert [len(found[kind]) for kind in ("update", "generation", "evaluation")] == [0, 1, 1]
    assert found["evaluation"][0]["name"] == "n"


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluation.json", "config.yaml"])
def test_a_sparse_file_is_refused_in_one_line(run, name):
    run.append_metrics({"kind": "update", "update": 0, "frames": 8, "seconds": 0.5})
    (run.path / name).touch()
    os.truncate(run.path / name, 30 * 2**30)
    tracemalloc.start()
    with pytest.raises(ConfigError, match=rf"{name}.*(larger|longer) than"):
        run_directories.read(run.path, [])
    assert tracemalloc.get_traced_memory()[1] < 2**27
    tracemalloc.stop()


def test_appending_to_a_file_with_a_huge_torn_line_reads_little(run):
    run.append_metrics(generation(0))
    with run.metrics_path.open("ab") as file:
        file.write(b'{"half' + b"x" * 2**20)
    run.append_metrics(generation(1))
    assert [row["generation"] for row in run.read_metrics("generation")] == [0, 1]
