"""The evaluator of OpenEvolve and of ShinkaEvolve, whose loops call this file for each candidate.

A candidate is a text file with an expression, in any number of lines; lines that begin with # are
left out. It is parsed and never executed. What to judge is in the environment:

    JUDGE_SLOT=value_loss JUDGE_TASKS=examples/random_programs.yaml JUDGE_STATE=runs/openevolve

OpenEvolve calls `evaluate(program_path)`. ShinkaEvolve runs
`python evaluate_proposal.py --program_path FILE --results_dir DIR`.
"""

import argparse
import json
import os
import time
from pathlib import Path

import metaevo

SECONDS = 3600
"""how long to wait for another process that uses the same archive"""


def expression_of(text):
    """Return the expression in a candidate's file."""
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("#"))


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
    """Return numbers, of which OpenEvolve maximises `combined_score`."""
    answer = judged(program_path)
    if answer.score is None:
        return {"combined_score": float(os.environ.get("JUDGE_WORST", 0)), "valid": 0.0}
    return {"combined_score": answer.score, "valid": 1.0, "rank": float(answer.rank)}


def main(argv=None):
    """Write metrics.json and correct.json, which ShinkaEvolve reads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True, type=Path)
    args = parser.parse_args(argv)
    answer = judged(args.program_path)
    metrics = {
        "combined_score": float(os.environ.get("JUDGE_WORST", 0))
        if answer.score is None
        else answer.score,
        "public": {"seeds": answer.seeds, "rank": answer.rank, "verdict": answer.verdict},
        "private": {},
        "text_feedback": answer.reason or "",
    }
    args.results_dir.mkdir(parents=True, exist_ok=True)
    correct = {"correct": answer.valid, "error": answer.reason}
    for name, content in {"metrics": metrics, "correct": correct}.items():
        (args.results_dir / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    metaevo.devices.setup()
    main()
