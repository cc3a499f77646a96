"""As much of wandb's server as a run needs, and a server that never answers."""

import contextlib
import gzip
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def summary(rows):
    """The last value of every key, which is how wandb summarises a history."""
    return json.dumps({key: value for row in rows for key, value in json.loads(row).items()})


class FakeWandb:
    """Remembers runs and their history; refuses artifacts if told to."""

    def __init__(self):
        self.rows, self.heads, self.opened = {}, {}, []
        self.takes_artifacts = True
        self.url = ""

    def answer(self, query, variables):
        name = variables.get("name")
        entity = {"id": "e", "name": "entity"}
        project = {"id": "p", "name": "p", "entity": entity}
        if "upsertBucket" in query:
            is_new = name not in self.rows
            self.rows.setdefault(name, [])
            self.heads.setdefault(name, variables)
            self.opened.append(name)
            bucket = {"id": f"id-{name}", "name": name, "displayName": name, "config": "{}",
                      "historyLineCount": len(self.rows[name]), "project": project}  # fmt: skip
            return {"upsertBucket": {"bucket": bucket, "inserted": is_new}}
        if "historyTail" in query:
            rows = self.rows.get(name)
            bucket = rows and {
                "id": f"id-{name}", "name": name, "displayName": name, "config": "{}",
                "summaryMetrics": summary(rows), "historyLineCount": len(rows), "logLineCount": 0,
                "eventsLineCount": 0, "historyTail": json.dumps(rows[-1:]), "eventsTail": "[]",
                "tags": [], "wandbConfig": '{"t": 1}',
            }  # fmt: skip
            return {"model": {**project, "bucket": bucket or None}}
        if "createRunFiles" in query:
            files = [{"name": each, "uploadUrl": f"{self.url}/put"} for each in variables["files"]]
            return {"createRunFiles": {"runID": "x", "uploadHeaders": [], "files": files}}
        if "createArtifact(" in query:
            sequence = {"id": "s", "latestArtifact": None}
            artifact = {"id": "a", "state": "COMMITTED", "artifactSequence": sequence}
            return {"createArtifact": {"artifact": artifact}}
        if "query ArtifactType" in query:
            return {"project": {"artifact": None}} if self.takes_artifacts else {}
        if "viewer" in query.lower():
            viewer = {"id": "v", "entity": "entity", "flags": "{}", "teams": {"edges": []}}
            return {"viewer": {**viewer, "username": "u", "email": ""}, "serverInfo": None}
        return {}

    def stream(self, name, files):
        history = files.get("wandb-history.jsonl")
        if history:
            rows = self.rows.setdefault(name, [])
            del rows[history["offset"] :]
            rows += history["content"]

    def history(self, name):
        """The rows of a run, without wandb's own fields."""
        rows = map(json.loads, self.rows[name])
        return [{k: v for k, v in row.items() if not k.startswith("_")} for row in rows]


@contextlib.contextmanager
def serving():
    """A FakeWandb at its `url`."""
    fake = FakeWandb()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def handle(self):
            with contextlib.suppress(ConnectionError):
                super().handle()

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            reply = {}
            if self.path == "/graphql":
                asked = json.loads(body)
                reply = {"data": fake.answer(asked["query"], asked.get("variables") or {})}
            elif self.path.endswith("/file_stream"):
                fake.stream(self.path.split("/")[-2], json.loads(body).get("files") or {})
            text = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_PUT = do_GET = do_POST  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def silence():
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
