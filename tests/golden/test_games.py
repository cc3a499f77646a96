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
OWN_KEYS = "round_robin", "extortion"


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


def test_a_run_is_read_and_shown(run):
    study, _, about, before = run
    assert {"generation": 4, **study.about()} == about
    first, *_ = study.tables(before)
    assert len(first.rows) > 1


@pytest.mark.long
def test_a_run_compares_as_it_did(run, tmp_path):
    study, found, _, before = run
    (tmp_path / "figures").mkdir()
    result = study.compare(
        {LEARNED: found},
        tmp_path,
        evolution_frames=before["evolution_frames"],
        measured={},
        check_stop=lambda: None,
    )
    assert result.keys() == before.keys()
    for key in (each for each in OWN_KEYS if each in before):
        new, old = numbers(result[key]), numbers(before[key])
        assert new.keys() == old.keys()
        for path, value in old.items():
            if isinstance(value, float):
                np.testing.assert_allclose(new[path], value, rtol=1e-3, atol=1e-3, err_msg=path)
            else:
                assert new[path] == value
    scores = [np.asarray([row["scores"] for row in each["variants"]]) for each in (result, before)]
    np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-3)
    assert result["against_best"]["conclusion"] == before["against_best"]["conclusion"]
