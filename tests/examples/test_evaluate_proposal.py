"""examples/evaluate_proposal.py keeps the contracts of OpenEvolve and ShinkaEvolve.

Neither is installed here: the tests call what they would call. The scores are drawn, not trained.
"""

import json
import runpy
from pathlib import Path

import pytest

from tests.metaevo.discovery.test_proposals import TASKS, drawn

FILE = Path(__file__).parents[2] / "examples" / "evaluate_proposal.py"
GOOD, BAD = "# EVOLVE-BLOCK-START\nerror +\n  0.5\n# EVOLVE-BLOCK-END\n", "import os\nos.abort()"
__all__ = ["drawn"]


@pytest.fixture
def evaluator(drawn, tmp_path, monkeypatch):
    (tmp_path / "tasks.yaml").write_text(json.dumps(TASKS))
    monkeypatch.setenv("JUDGE_SLOT", "value_loss")
    monkeypatch.setenv("JUDGE_TASKS", str(tmp_path / "tasks.yaml"))
    monkeypatch.setenv("JUDGE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("JUDGE_WORST", "-7")
    return runpy.run_path(str(FILE))


def test_openevolve_gets_numbers(evaluator, tmp_path):
    path = tmp_path / "candidate.py"
    path.write_text(GOOD)
    good = evaluator["evaluate"](str(path))
    assert good["combined_score"] == pytest.approx(0.5, abs=0.1)
    assert (good["valid"], good["rank"]) == (1.0, 1.0)
    path.write_text(BAD)
    assert evaluator["evaluate"](str(path)) == {"combined_score": -7.0, "valid": 0.0}


@pytest.mark.parametrize(("text", "is_correct"), [(GOOD, True), (BAD, False)])
def test_shinka_finds_its_two_files(evaluator, tmp_path, text, is_correct):
    path, results = tmp_path / "main.py", tmp_path / "results"
    path.write_text(text)
    evaluator["main"](["--program_path", str(path), "--results_dir", str(results)])
    metrics, correct = (json.loads((results / f"{name}.json").read_text())
                        for name in ("metrics", "correct"))  # fmt: skip
    assert correct["correct"] is is_correct
    assert (correct["error"] is None) == is_correct
    assert isinstance(metrics["combined_score"], float)
    assert (metrics["text_feedback"] == "") == is_correct
    assert {"public", "private"} <= set(metrics)
