"""A proposer that asks a language model: any server with OpenAI's chat completions.

    export OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_MODEL=NAME
    python examples/ask_model.py --slot value_loss --tasks examples/random_programs.yaml \
        --state runs/asked --rounds 10

The key, if the server needs one, is read from OPENAI_API_KEY. It is sent to that server only and is
never written. Lines of an answer are proposals: the judge parses them, and nothing is executed.
"""

import argparse
import json
import os
import re
import sys
import time
import urllib.request
from http.client import HTTPException

import metaevo

PROMPT = """You improve the {slot} of a reinforcement-learning algorithm. Propose {count} new
expressions for {output}, which differ from each other and from those below.

Inputs: {inputs}
Operations: {operations}
Write + - * / for add, subtract, multiply and divide, x ** 2 for square, -x for negate,
where(a > b, x, y) for a choice, and clip(x, low, high). Numbers are allowed.
An expression has at most {length} operations, inputs and numbers, and {depth} levels.

The best expressions so far, with their scores (higher is better):
{best}

Not valid, with the reason:
{invalid}

Answer with one expression per line and nothing else."""
PROPOSALS, BEST, TRIES = 16, 12, 3
WAIT = 5.0
"""seconds before the second try, half of those before the third"""
LARGEST = 2**20
"""most bytes of an answer that are read"""
MARK = re.compile(r"^(?:[-*]|\d+[.)])\s+")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Sends the key to no other server."""

    def redirect_request(self, *args):
        """Return None, which makes a redirection an error."""


def scored(judge):
    """Return the programs of the archive that have a score, the best one first."""
    return [each for each in judge.archive if each["score"] is not None]


def prompt(judge, invalid):
    """Return the text for the model; the language is that of the judge."""
    config = judge.settings.component
    best = [f"{each['score']:.5g}  {each['text']}" for each in scored(judge)[:BEST]]
    output = {"slope": "its derivative", "value": "its value"}[config.gives]
    return PROMPT.format(
        slot=config.slot, count=PROPOSALS, output=output, inputs=", ".join(config.names),
        operations=", ".join(config.operations), length=config.length, depth=config.depth,
        best="\n".join(best) or "none yet", invalid="\n".join(invalid[:BEST]) or "none",
    )  # fmt: skip


def ask(text):
    """Return the model's answer.

    Raises:
        OSError, ValueError, HTTPException: if there is none, or it has another form.
    """
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}]}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY", "").strip():
        headers["Authorization"] = f"Bearer {key}"
    url = f"{os.environ['OPENAI_BASE_URL'].rstrip('/')}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.build_opener(NoRedirect).open(request, timeout=600) as response:
        content = json.loads(response.read(LARGEST))
    try:
        return str(content["choices"][0]["message"]["content"])
    except (KeyError, IndexError, TypeError):
        raise ValueError("the answer has no choices[0].message.content") from None


def ask_again(text):
    """Return the model's answer, after up to `TRIES` requests; None if all have failed."""
    for failures in range(TRIES):
        time.sleep(failures * WAIT)
        try:
            return ask(text)
        except (OSError, ValueError, HTTPException) as error:
            print(f"no answer: {error}", file=sys.stderr, flush=True)
    return None


def expressions(answer):
    """Return the lines of an answer without marks of lists, blocks of code and thoughts."""
    answer = re.sub(r"<think>.*?</think>", "", answer, flags=re.DOTALL)
    lines = [MARK.sub("", line.strip()).strip("` ") for line in answer.splitlines()]
    return [line for line in lines if line][: 2 * PROPOSALS]


def main(argv=None):
    parser = argparse.ArgumentParser()
    for name in ("slot", "tasks", "state"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args(argv)
    if missing := [n for n in ("OPENAI_BASE_URL", "OPENAI_MODEL") if not os.environ.get(n)]:
        parser.error(f"{', '.join(missing)}: must be set in the environment")
    invalid = []
    with metaevo.Judge(args.slot, args.tasks, state=args.state) as judge:
        for number in range(args.rounds):
            answer = ask_again(prompt(judge, invalid))
            if answer is None:
                return 1
            found = judge.submit(expressions(answer))
            invalid = [f"{str(e.expression)[:100]}: {e.reason}" for e in found if not e.valid]
            best = next((f"{e['score']:.5g}  {e['text']}" for e in scored(judge)), "none")
            print(f"{number}: {len(found)} proposals, {len(invalid)} not valid; best {best}",
                  flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    metaevo.devices.setup()
    sys.exit(main())
