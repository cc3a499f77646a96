"""Run directories of games that 7ff1657 wrote: they load, and compare with the same numbers.

Each directory is a small evolution (`config.yaml`); `evaluation.json` is the comparison at its end.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from metaevo.config import from_dict
from metaevo.parts.part import LEARNED
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.registry import find

RUNS = sorted(path for path in (Path(__file__).parent / "games").iterdir() if path.is_dir())


@pytest.fixture(params=RUNS, ids=lambda path: path.name)
def run(request):
    """The directory of a run, its study, what it has found, and its comparison."""
    directory = RunDirectory.open(request.param)
    raw = directory.read_config()["config"]
    kind = find(raw)
    study = kind.make(from_dict(kind.settings_class(raw), raw), request.param)
    found, about = checkpoint.load_tree(directory.meta_params)
    before = json.loads(directory.evaluation_path.read_text())
    return study, found, about, before


def numbers(tree, path=""):
    """The leaves of a JSON tree by their paths."""
    if isinstance(tree, dict):
        return {k: v for key in tree for k, v in numbers(tree[key], f"{path}.{key}").items()}
    if isinstance(tree, list):
        found = (numbers(each, f"{path}[{i}]") for i, each in enumerate(tree))
        return {k: v for each in found for k, v in each.items()}
    return {path: tree}


def test_a_run_is_read(run):
    study, _, about, _ = run
    assert {"generation": 4, **study.about()} == about


@pytest.mark.long
def test_a_run_compares_as_it_did(run, tmp_path):
    study, found, _, before = run
    scores = study.compare({LEARNED: found}, tmp_path, check_stop=lambda: None)["scores"]
    (old,) = (before[key] for key in ("round_robin", "victims") if key in before)
    cells = old["contenders"] if "contenders" in old else old["channels"]
    assert list(study.judged.opponents) == old.get("opponents", old.get("names"))
    new, old = numbers({**study.judged.cells}), numbers(cells)
    assert new.keys() == old.keys()
    for path, value in old.items():
        np.testing.assert_allclose(new[path], value, rtol=1e-3, atol=1e-3, err_msg=path)
    for row in before["variants"]:
        own = scores.held_out_of(row["name"])
        wanted = np.asarray(row["scores"]).reshape(len(own), -1).mean(axis=1)
        np.testing.assert_allclose(own, wanted, rtol=1e-3, atol=1e-3)
    assert scores.verdict().baseline == before["best_hand_written"]
    first, *_ = study.tables()
    assert len(first.rows) == len(study.judged.opponents)
