"""The evaluator of OpenEvolve and of ShinkaEvolve, whose loops call this file for each candidate.

A candidate is a text file with an expression, in any number of lines; what follows a # is left out.
It is parsed and never executed. What to judge is in the environment:

    JUDGE_SLOT=value_loss JUDGE_TASKS=examples/random_programs.yaml JUDGE_STATE=runs/openevolve

ShinkaEvolve runs `python evaluate_proposal.py --program_path FILE --results_dir DIR`. OpenEvolve
calls `evaluate(program_path)` in workers that it forks. JAX does not survive a fork, so `evaluate`
runs the same command.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import metaevo

SECONDS = 3600
"""how long to wait for another process that uses the same archive"""
WORST = -sys.float_info.max
"""score of a candidate without one, which ranks last on any task; finite, as JSON needs"""


def expression_of(text):
    """Return the expression in a candidate's file."""
    return " ".join(line.partition("#")[0] for line in text.splitlines()).strip()


def judged(program_path):
    """Judge a candidate, one process at a time."""
    tasks, state = os.environ["JUDGE_TASKS"], os.environ["JUDGE_STATE"]
    proposal = {"expression": expression_of(Path(program_path).read_text(encoding="utf-8"))}
    end = time.monotonic() + SECONDS
    while True:
        try:
            with metaevo.Judge(os.environ["JUDGE_SLOT"], tasks, state=state, batch=1) as judge:
                (answer,) = judge.submit([proposal])
            return answer
        except metaevo.ConfigError as error:
            if "another judge" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(1)


def evaluate(program_path):
    """Return OpenEvolve's result: it maximises `combined_score`, and its prompts have `reason`."""
    from openevolve.evaluation_result import EvaluationResult

    with tempfile.TemporaryDirectory() as folder:
        files = ["--program_path", program_path, "--results_dir", folder]
        command = [sys.executable, __file__, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
        metrics, correct = (
            json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
            for name in ("metrics", "correct")
        )
    numbers = {"combined_score": metrics["combined_score"], "valid": float(correct["correct"])}
    reason = correct["error"]
    return EvaluationResult(numbers, {"reason": reason} if reason else {})


def main(argv=None):
    """Write metrics.json and correct.json, which ShinkaEvolve reads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True, type=Path)
    args = parser.parse_args(argv)
    answer = judged(args.program_path)
    metrics = {
        "combined_score": WORST if answer.score is None else answer.score,
        "public": {"seeds": answer.seeds},  # in the prompts, so without the verdict
        "private": {"rank": answer.rank, "verdict": answer.verdict},
        "text_feedback": answer.reason or "",
    }
    args.results_dir.mkdir(parents=True, exist_ok=True)
    correct = {"correct": answer.valid, "error": answer.reason}
    for name, content in {"metrics": metrics, "correct": correct}.items():
        (args.results_dir / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    metaevo.devices.setup()
    try:
        main()
    except metaevo.ConfigError as wrong:
        sys.exit(f"error: {wrong}")
