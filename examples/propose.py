"""Propose expressions to a judge: changes of its best ones, or lines from a language model.

    python examples/propose.py --slot value_loss --tasks examples/judge.yaml --state runs/propose
    OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_MODEL=NAME python examples/propose.py ...

With OPENAI_MODEL set, a server with OpenAI's chat completions is asked; OPENAI_API_KEY is optional.
`evaluate` is a function for the loops of other programs, such as OpenEvolve: it returns the
score of a candidate, the content of a text file. A proposal is parsed and never executed.
"""

import argparse
import json
import math
import os
import random
import re
import sys
import urllib.request
from pathlib import Path

import metaevo

PROPOSALS, BEST = 16, 12
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?")
FORMS = ["({0}) + {1}", "({0}) * {1}", "tanh({0}) * {1}", "clip({0}, -{1}, {1})"]
PROMPT = """Propose {count} expressions for the {output} of a {slot} in reinforcement learning.
Inputs: {inputs}. Operations: {operations}. At most {length} operations, inputs and numbers.
The best ones so far, with their scores (higher is better):
{best}
Answer with one expression per line and nothing else."""


def changed(rng: random.Random, expression: str) -> str:
    """Return an expression with another number, or as a part of a larger one."""
    numbers = list(NUMBER.finditer(expression))
    if numbers and rng.random() < 0.7:
        old = rng.choice(numbers)
        new = f"{float(old[0]) * math.exp(rng.gauss(0, 0.5)):.4g}"
        return expression[: old.start()] + new + expression[old.end() :]
    return rng.choice(FORMS).format(expression, f"{10 ** rng.uniform(-2, 0.5):.4g}")


def scored(judge: metaevo.Judge) -> list:
    """Return the best programs of the archive, without those whose agents diverged."""
    return [each for each in judge.archive if each.score is not None][:BEST]


def ask(judge: metaevo.Judge) -> list[str]:
    """Return the lines of a language model's answer to the best programs of the archive."""
    config = judge.settings.component
    best = [f"{each.score:.5g}  {each.text}" for each in scored(judge)]
    text = PROMPT.format(
        count=PROPOSALS, slot=config.slot, output=config.gives, inputs=", ".join(config.names),
        operations=", ".join(config.operations), length=config.length, best="\n".join(best),
    )  # fmt: skip
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}]}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    url = f"{os.environ['OPENAI_BASE_URL'].rstrip('/')}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        answer = json.load(response)["choices"][0]["message"]["content"]
    return [line.strip() for line in answer.splitlines() if line.strip()][: 2 * PROPOSALS]


def evaluate(program_path: str) -> dict[str, float]:
    """Return the score of a candidate; what is not valid ranks below every score.

    JUDGE_SLOT, JUDGE_TASKS and JUDGE_STATE in the environment say what is judged. An archive serves
    one process at a time, and JAX does not survive a fork: let a loop call this in one new process.
    """
    slot, tasks, state = (os.environ[f"JUDGE_{name}"] for name in ("SLOT", "TASKS", "STATE"))
    lines = Path(program_path).read_text(encoding="utf-8").splitlines()
    expression = " ".join(line.partition("#")[0] for line in lines).strip()
    with metaevo.Judge(slot, tasks, state=state) as judge:
        (answer,) = judge.submit([expression])
    valid = answer.valid and answer.score is not None
    return {"combined_score": answer.score if valid else -math.inf, "valid": float(valid)}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    for name in ("slot", "tasks", "state"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args(argv)
    with metaevo.Judge(args.slot, args.tasks, state=args.state) as judge:
        rng = random.Random(len(judge.archive))
        for number in range(args.rounds):
            if os.environ.get("OPENAI_MODEL"):
                proposals = ask(judge)
            else:
                best = [each.text for each in scored(judge)]
                best = best or judge.settings.component.names
                proposals = [changed(rng, rng.choice(best)) for _ in range(PROPOSALS)]
            judge.submit(proposals)
            first = judge.archive[0]
            print(f"{number}: {first.score:.5g}  {first.text}", flush=True)


if __name__ == "__main__":
    metaevo.devices.setup()
    try:
        main()
    except (metaevo.ConfigError, OSError) as wrong:
        sys.exit(f"error: {wrong}")
