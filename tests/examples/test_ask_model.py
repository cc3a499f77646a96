"""examples/ask_model.py asks a server, here one in this process; the scores are drawn."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from examples import ask_model
from tests.metaevo.discovery.test_proposals import TASKS, drawn

ANSWER = """<think>
error + 9 could be good
</think>
```
1. error + 0.5
- tanh(error) * 2
`error + 0.5`
__import__("os").mkdir("executed")
Good luck!
```
"""
__all__ = ["drawn"]


@pytest.fixture
def server():
    """A server that gives `server.answers` (status, content) one after another."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append((self.path, dict(self.headers), body))
            status, content = server.answers.pop(0)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", content)
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answers, server.requests = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def run(server, drawn, tmp_path, monkeypatch):
    """The script in an empty directory with a key in the environment."""
    (tmp_path / "tasks.yaml").write_text(json.dumps(TASKS))
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{server.server_port}/v1/"
    for name, value in (("BASE_URL", url), ("MODEL", "small"), ("API_KEY", "s3cret")):
        monkeypatch.setenv(f"OPENAI_{name}", value)
    monkeypatch.setattr(ask_model, "WAIT", 0.0)
    return lambda *more: ask_model.main(["--slot", "value_loss", "--tasks", "tasks.yaml", *more])


def answered(text):
    return 200, json.dumps({"choices": [{"message": {"content": text}}]})


def test_it_submits_lines_and_shows_the_best_to_the_model(server, run, tmp_path, capsys):
    server.answers = [(500, "busy"), (200, "{"), answered(ANSWER), answered("error + 0.75")]
    assert run("--state", "state", "--rounds", "2") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith("0: 5 proposals, 2 not valid; best ")
    assert out.splitlines()[1].startswith("1: 1 proposals, 0 not valid; best ")
    assert err.count("no answer: ") == 2
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer s3cret"
    assert body["model"] == "small"
    (first, last) = (server.requests[number][2]["messages"][0]["content"] for number in (0, -1))
    assert "Inputs: error\n" in first
    assert "Operations: add, multiply, tanh, clip\n" in first
    assert "at most 12 operations" in first
    lines = (tmp_path / "state" / "archive.jsonl").read_text().splitlines()
    assert {json.loads(line)["text"] for line in lines} == {
        "error + 0.5", "tanh(error) * 2.0", "error + 0.75"
    }  # fmt: skip
    assert "  tanh(error) * 2.0\n" in last
    assert "Good luck!: " in last
    assert not (tmp_path / "executed").exists()
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"s3cret" not in kept
    assert "s3cret" not in out + err


def test_it_gives_up_in_one_line_for_each_try(server, run, capsys):
    elsewhere = f"http://localhost:{server.server_port}/v1/elsewhere"
    server.answers = [(401, ""), (200, '{"choices": []}'), (302, elsewhere)]
    assert run("--state", "state") == 1
    lines = capsys.readouterr().err.splitlines()
    assert ["401" in lines[0], "choices" in lines[1], "302" in lines[2]] == [True] * 3
    assert len(lines) == len(server.requests) == 3


def test_it_needs_a_server(run, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(SystemExit, match="2"):
        run("--state", "state")
    assert "OPENAI_BASE_URL: must be set" in capsys.readouterr().err
