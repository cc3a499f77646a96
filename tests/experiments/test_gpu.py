"""The benchmark for a GPU: what it measures exists, and failures are reported."""

import json
import os
import sys

import pytest

from experiments.benchmarks import gpu
from experiments.benchmarks.gpu_programs import programs
from experiments.benchmarks.processes import Variant, Worker

WORKER = """
import json, sys
print(json.dumps({"row": {"GB / update": "3"}, "compile_seconds": 2.5}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": 0.5, "amount": 1e6, "peak_bytes": 2**21}), flush=True)
"""


def variant(code):
    return Variant([sys.executable, "-c", code])


GOOD, SLOW = variant(WORKER), variant("import time; time.sleep(30)" + WORKER)
BAD = variant("raise SystemExit(3)")
LATER = variant(WORKER.replace('print(json.dumps({"seconds"', 'sys.exit(4); print(({"seconds"'))


def test_its_programs_exist():
    assert set(gpu.PROGRAMS) <= set(programs.PROGRAMS)
    assert programs.UPDATES == gpu.UPDATES


def test_peers_train_as_many_agents_as_we():
    peers = [("peer", ["sh", "-c", "{agents} {updates}"])]
    assert set(gpu.variants("dqn", 64, peers)) == {"dqn"}
    several = gpu.variants("ppo", 64, peers)
    assert several["peer"].command[-1] == f"64 {gpu.UPDATES}"


def test_it_needs_a_gpu(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        gpu.main(["ppo", "--save", str(tmp_path / "results.json")])
    assert caught.value.code == 2
    assert "no GPU" in capsys.readouterr().err


def test_an_unknown_program(capsys):
    with pytest.raises(SystemExit) as caught:
        gpu.main(["pppo"])
    assert caught.value.code == 2
    assert "pppo" in capsys.readouterr().err


def test_a_worker_may_decline(tmp_path):
    declines = variant("import json, sys; print(json.dumps({'skip': 'why'}), flush=True); input()")
    without_memory = variant(WORKER.replace(', "peak_bytes": 2**21', ""))
    path = tmp_path / "gpu.json"
    assert gpu.run({("one", 1): {"one": without_memory, "peer": declines}}, path) == 0
    [table] = json.loads(path.read_text())["tables"]
    assert [row[:2] for row in table["rows"]] == [["one", "1"]]


def test_what_fails_is_reported_and_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "COMPILE_SECONDS", 5)
    path = tmp_path / "gpu.json"
    assert gpu.run({("one", 1): {"one": GOOD}}, path) == 0
    chosen = {("bad", 1): {"bad": BAD, "peer": GOOD}, ("slow", 2): {"slow": SLOW}}
    chosen |= {("later", 3): {"later": LATER}, ("one", 4): {"one": GOOD}}
    assert gpu.run(chosen, path) == 1
    [table] = json.loads(path.read_text())["tables"]
    assert [row[:2] for row in table["rows"]] == [["peer", "1"], ["one", "4"]]
    assert "2 [2, 2]" in table["rows"][0]
    errors = capsys.readouterr().err
    assert all(f"error: {name}, " in errors for name in ("bad", "slow", "later"))


def test_a_worker_ends_with_all_that_it_started(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"sleep 600 > {pipe} & echo '{{}}'; wait"
    with Worker("peer", Variant(["sh", "-c", script])) as worker:
        worker.wait()
        child = pipe.open("rb")
    with child:
        assert child.read() == b""  # the end, once nobody can write any more


def test_not_too_many_processes_at_a_time(monkeypatch):
    monkeypatch.setattr(gpu, "TOGETHER", 3)
    chosen = {(name, 1): {name: GOOD, "peer": GOOD} for name in "abc"}
    chosen["d", 1] = {"d": GOOD}
    waves = [[name for name, _ in wave] for wave in gpu.waves(chosen)]
    assert waves == [["a"], ["b"], ["c", "d"]]
