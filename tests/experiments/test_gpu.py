"""The benchmark for a GPU: what it measures exists, and failures are reported."""

import json
import os
import sys

import pytest

from experiments.benchmarks import gpu
from experiments.benchmarks.gpu_programs import hlo, programs
from experiments.benchmarks.processes import Variant, Worker

WORKER = """
import json, sys
print(json.dumps({"row": {"GB / update": "3"}, "compile_seconds": 2.5}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": 0.5, "amount": 1e6, "peak_bytes": 2**21}), flush=True)
"""


TEXT = """HloModule example

%product (x: f32[1000,1000], y: f32[1000,1000]) -> f32[1000,1000] {
  %x = f32[1000,1000]{1,0} parameter(0)
  %y = f32[1000,1000]{1,0} parameter(1)
  ROOT %dot = f32[1000,1000]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (a: f32[1000,1000]) -> f32[1000,1000] {
  %a = f32[1000,1000]{1,0} parameter(0)
  %kernel = f32[500,64,32]{2,1,0} parameter(1)
  %bias = f32[500,32]{1,0} parameter(2)
  %inputs = f32[500,100,64]{2,1,0} parameter(3)
  %call = f32[500,100,32]{2,1,0} custom-call(%kernel, %bias, %inputs), TARGET
  ROOT %fusion = f32[1000,1000]{1,0} fusion(%a, %a), kind=kCustom, calls=%product
}
""".replace("TARGET", 'custom_call_target="__gpu$xla.gpu.triton"')


def test_an_estimate_counts_products():
    total = hlo.Program(TEXT, bandwidth=1e15).whole.total
    products = 1000**3 + 500 * 100 * 64 * 32
    assert total.seconds == pytest.approx(products / hlo.PRODUCTS_PER_SECOND)
    assert total.launches == 2


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
