import json
import random
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from examples import propose
from metaevo.parts.expressions import parse
from tests.metaevo.discovery.test_proposals import TASKS


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.yaml"
    path.write_text(json.dumps({**TASKS, "evaluation": {"seeds": 0}}))
    return path


def test_changes_stay_in_the_language_and_differ():
    rng, expression, seen = random.Random(0), "error", set()
    for _ in range(100):
        expression = propose.changed(rng, expression if len(expression) < 150 else "error")
        parse(expression, ["error"], {})
        seen.add(expression)
    assert len(seen) > 80


@pytest.mark.long
def test_it_improves_its_archive(tasks, tmp_path, capsys):
    arguments = ["--slot", "value_loss", "--tasks", str(tasks), "--state", str(tmp_path / "state")]
    propose.main([*arguments, "--rounds", "2"])
    propose.main([*arguments, "--rounds", "1"])  # continues
    scores = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(scores) == 3
    assert scores == sorted(scores)


@pytest.mark.long
def test_a_server_sees_the_best_and_its_lines_are_never_executed(tasks, tmp_path, monkeypatch):
    bodies = []
    lines = ["error + 0.5", f'__import__("os").mkdir("{tmp_path / "executed"}")', "Good luck!"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            answer = {"choices": [{"message": {"content": "\n".join(lines)}}]}
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1/")
        monkeypatch.setenv("OPENAI_MODEL", "small")
        state = str(tmp_path / "state")
        propose.main(
            ["--slot", "value_loss", "--tasks", str(tasks), "--state", state, "--rounds", "2"]
        )
        server.shutdown()
    assert [body["model"] for body in bodies] == ["small", "small"]
    assert "error + 0.5" in bodies[1]["messages"][0]["content"]
    assert not (tmp_path / "executed").exists()


@pytest.mark.long
def test_a_candidate_that_is_not_valid_ranks_below_every_score(tasks, tmp_path, monkeypatch):
    settings = {"SLOT": "value_loss", "TASKS": str(tasks), "STATE": str(tmp_path / "state")}
    for name, value in settings.items():
        monkeypatch.setenv(f"JUDGE_{name}", value)
    path, scores = tmp_path / "candidate.py", {}
    for text in ("# EVOLVE-BLOCK-START\n(error +  # optimism\n  0.5)\n", "import os\nos.abort()"):
        path.write_text(text)
        scores[text] = propose.evaluate(str(path))
    good, bad = scores.values()
    assert (good["valid"], bad["valid"]) == (1.0, 0.0)
    assert bad["combined_score"] < -1e30 < good["combined_score"]
