"""The benchmark for a GPU: what it measures exists, and failures are reported."""

import json
import os
import sys

from experiments.benchmarks import gpu
from experiments.benchmarks.gpu_programs import programs
from experiments.benchmarks.processes import Variant, Worker

WORKER = """
import json, sys
print(json.dumps({"row": {"GB / update": "3"}, "compile_seconds": 2.5}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": 0.5, "amount": 1e6, "peak_bytes": 2**21}), flush=True)
"""


def test_its_programs_exist():
    assert set(gpu.PROGRAMS) <= set(programs.PROGRAMS)
    assert programs.UPDATES == gpu.UPDATES


def test_peers_train_the_same_number_of_agents():
    peers = [("peer", ["sh", "-c", "{agents} {updates}"])]
    assert set(gpu.variants("dqn", 64, peers)) == {("dqn", 64)}
    several = gpu.variants("ppo", 64, peers)
    assert several["peer", 64].command[-1] == f"64 {gpu.UPDATES}"


def test_bad_input(tmp_path, refused):
    assert "no GPU" in refused(gpu.main, ["ppo", "--save", str(tmp_path / "results.json")])
    assert "pppo" in refused(gpu.main, ["pppo"])


def test_failed_variants_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "TOGETHER", 2)
    good, bad = (Variant([sys.executable, "-c", code]) for code in (WORKER, "raise SystemExit(3)"))
    path = tmp_path / "gpu.json"
    chosen = {("ppo", 1): good, ("ppo", 64): bad, ("dqn", 1): good}
    assert gpu.run(chosen, path) == 1
    [table] = json.loads(path.read_text())["tables"]
    assert [row[:2] for row in table["rows"]] == [["ppo", "1"], ["dqn", "1"]]
    assert table["rows"][0][-3:] == ["2 [2, 2]", "2.5", "2"]
    assert gpu.run({("ppo", 1): good}, path) == 0


def test_a_stopped_worker_stops_its_subprocesses(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"sleep 600 > {pipe} & echo '{{}}'; wait"
    with Worker("peer", Variant(["sh", "-c", script])) as worker:
        worker.answer()
        child = pipe.open("rb")
    with child:
        assert child.read() == b""  # the end, once nobody can write any more
