"""examples/evaluate_proposal.py keeps the contracts of OpenEvolve and ShinkaEvolve.

The long tests feed recorded candidates through their evaluators, where these are installed. The
others call what they would call, with scores that are drawn and not trained.
"""

import asyncio
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

import metaevo
from examples import evaluate_proposal
from tests.metaevo.discovery.test_proposals import TASKS, drawn

FILE = Path(__file__).parents[2] / "examples" / "evaluate_proposal.py"
GOOD = "# EVOLVE-BLOCK-START\n(error +  # optimism\n  0.5)\n# EVOLVE-BLOCK-END\n"
BAD = "import os\nos.abort()"
__all__ = ["drawn"]


@pytest.fixture
def state(tmp_path, monkeypatch):
    """What is judged is in the environment; return the folder of the archive."""
    tasks = {**TASKS, "evaluation": {"seeds": 0}}
    (tmp_path / "tasks.yaml").write_text(json.dumps(tasks))
    monkeypatch.setenv("JUDGE_SLOT", "value_loss")
    monkeypatch.setenv("JUDGE_TASKS", str(tmp_path / "tasks.yaml"))
    monkeypatch.setenv("JUDGE_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def score_of(expression):
    """Judge an expression without the example."""
    tasks = {**TASKS, "evaluation": {"seeds": 0}}
    with metaevo.Judge("value_loss", tasks, batch=1) as judge:
        (answer,) = judge.submit([expression])
    return answer.score


# --- Without them ---------------------------------------------------------------------------------


def test_openevolve_gets_numbers_and_the_reason(state, drawn, tmp_path, monkeypatch):
    result = types.SimpleNamespace(EvaluationResult=lambda numbers, artifacts: (numbers, artifacts))
    monkeypatch.setitem(sys.modules, "openevolve.evaluation_result", result)

    def run(command, **options):
        assert command[:2] == [sys.executable, str(FILE)]
        evaluate_proposal.main(command[2:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    path = tmp_path / "candidate.py"
    path.write_text(GOOD)
    numbers, artifacts = evaluate_proposal.evaluate(str(path))
    assert numbers == {"combined_score": pytest.approx(0.5, abs=0.1), "valid": 1.0}
    assert artifacts == {}
    path.write_text(BAD)
    numbers, artifacts = evaluate_proposal.evaluate(str(path))
    assert numbers == {"combined_score": evaluate_proposal.WORST, "valid": 0.0}
    assert "no formula" in artifacts["reason"]


@pytest.mark.parametrize(("text", "is_correct"), [(GOOD, True), (BAD, False)])
def test_shinka_finds_its_two_files(state, drawn, tmp_path, text, is_correct):
    path, results = tmp_path / "main.py", tmp_path / "results"
    path.write_text(text)
    evaluate_proposal.main(["--program_path", str(path), "--results_dir", str(results)])
    metrics, correct = (json.loads((results / f"{name}.json").read_text())
                        for name in ("metrics", "correct"))  # fmt: skip
    assert correct["correct"] is is_correct
    assert (correct["error"] is None) == is_correct
    assert isinstance(metrics["combined_score"], float)
    assert (metrics["text_feedback"] == "") == is_correct
    assert "verdict" not in metrics["public"]  # their models read it
    assert "verdict" in metrics["private"]


def test_what_is_invalid_ranks_last_also_where_all_scores_are_negative(state, drawn, tmp_path):
    scores = []
    for number, text in enumerate([BAD, "error + -1e6", "error + -1"]):
        path, results = tmp_path / f"{number}.py", tmp_path / f"results_{number}"
        path.write_text(text)
        evaluate_proposal.main(["--program_path", str(path), "--results_dir", str(results)])
        written = (results / "metrics.json").read_text()
        assert "Infinity" not in written  # JSON has none
        scores.append(json.loads(written)["combined_score"])
    assert scores == sorted(scores)
    assert scores[0] < scores[1] < scores[2] < 0


# --- With them ------------------------------------------------------------------------------------


@pytest.mark.long
def test_openevolves_evaluator_gets_the_judges_score(state):
    evaluators = pytest.importorskip("openevolve.evaluator")
    configs = pytest.importorskip("openevolve.config")
    config = configs.EvaluatorConfig(timeout=600, max_retries=0, cascade_evaluation=False)
    evaluator = evaluators.Evaluator(config, str(FILE))

    async def evaluate(*codes):
        return [await evaluator.evaluate_program(code, code) for code in codes]

    good, bad = asyncio.run(evaluate(GOOD, BAD))
    assert good == {"combined_score": pytest.approx(score_of("error + 0.5")), "valid": 1.0}
    assert bad == {"combined_score": evaluate_proposal.WORST, "valid": 0.0}
    assert evaluator.get_pending_artifacts(GOOD) is None
    assert "no formula" in evaluator.get_pending_artifacts(BAD)["reason"]


@pytest.mark.long
def test_shinkas_scheduler_gets_the_judges_score(state, tmp_path):
    launch = pytest.importorskip("shinka.launch")
    config = launch.LocalJobConfig(eval_program_path=str(FILE))
    scheduler = launch.JobScheduler("local", config)
    found = []
    for name, code in {"good": GOOD, "bad": BAD}.items():
        (tmp_path / f"{name}.py").write_text(code)
        results, _ = scheduler.run(str(tmp_path / f"{name}.py"), str(tmp_path / name))
        found.append((results["correct"]["correct"], results["metrics"]["combined_score"]))
    scheduler.shutdown()
    assert found == [
        (True, pytest.approx(score_of("error + 0.5"))),
        (False, evaluate_proposal.WORST),
    ]
    assert "no formula" in results["metrics"]["text_feedback"]
