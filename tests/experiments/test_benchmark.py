import json
import os
import sys

import pytest

from experiments import benchmark
from experiments.benchmarks import engine, hlo
from experiments.benchmarks.tables import Table
from tests.processes import python

pytestmark = pytest.mark.long

FAKE = """
import json, sys
seconds = float(sys.argv[1])
print(json.dumps({"layout": "fake"}), flush=True)
for _ in sys.stdin:
    sample = {"amount": 100, "seconds": seconds, "cpu_seconds": 2 * seconds}
    print(json.dumps(sample), flush=True)
"""
"""A worker that says how long it took and does nothing."""


def run(*arguments):
    done = python("experiments/benchmark.py", *arguments, "--repeats", "1")
    assert done.returncode == 0, done.stderr
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "|" in line]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def test_a_learner_is_compared_with_another_worker_and_another_checkout(tmp_path):
    saved, script = tmp_path / "saved.json", tmp_path / "fake.py"
    script.write_text(FAKE)
    ours, checkout, other = run(
        "q_learning", "--tasks", "GridWorld", "--agents", "2", "--frames", "2048", "--against", ".",
        "--external", f"other={sys.executable} {script} {{agents}}", "--save", str(saved),
    )  # fmt: skip
    page = json.loads(saved.read_text())
    assert page["command"].startswith(
        "python experiments/benchmark.py q_learning --tasks GridWorld"
    )
    assert not {"--save", str(script)} & set(page["command"].split())
    assert page["machine"]["jax"]
    (kept,) = page["tables"]
    assert next(dict(zip(kept["columns"], row, strict=True)) for row in kept["rows"]) == ours
    assert (ours["task"], ours["agents"], ours["variant"]) == ("GridWorld", "2", "ours")
    assert float(ours["first run, s"]) > 0
    assert float(ours["peak MiB"].replace(",", "")) > 64
    assert page["commit"].startswith(checkout["variant"].rstrip("+")[:7])
    assert checkout["layout"] == ours["layout"]
    assert float(checkout["in CPU seconds"].split()[0]) > 0
    assert (other["variant"], other["steps/s: median [min, max]"]) == ("other", "50 [50, 50]")


def test_variants_are_compared_with_ours_in_turns(tmp_path, monkeypatch, capsys):
    """A failing variant is reported and left out."""
    log = tmp_path / "log"
    monkeypatch.setenv("LOG", str(log))
    code = FAKE.replace(
        "    sample",
        "    print(seconds, file=open(__import__('os').environ['LOG'], 'a'))\n    sample",
    )
    fails = "raise SystemExit(3)", "print('hello')", "print('{}', flush=True); input()"
    codes = {"ours": (code, "0.5"), "b": (code, "2"), **{each: (each,) for each in fails}}
    commands = {name: [sys.executable, "-c", *words] for name, words in codes.items()}
    others = {"b": commands["b"]}  # without a reference
    table = Table(*engine.COLUMNS)
    engine.compare([(("ppo", "task", 7), commands), (("ppo", "task", 8), others)], table, 2)
    assert [row[2:8] for row in table.rows] == [
        ["7", "ours", "200 [200, 200]", "100 [100, 100]", "", ""],
        ["7", "b", "50 [50, 50]", "25 [25, 25]", "4 [4, 4]", "4 [4, 4]"],
        ["8", "b", "50 [50, 50]", "25 [25, 25]", "", ""],
    ]
    assert log.read_text().split() == ["0.5", "2.0"] * 2 + ["2.0"] * 2
    assert capsys.readouterr().err.count("error: ") == len(fails)


def test_a_stopped_worker_stops_its_subprocesses(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with engine.process(["sh", "-c", f"sleep 600 > {pipe} & echo '{{}}'; wait"]) as ask:
        ask("")
        child = pipe.open("rb")
    with child:
        assert child.read() == b""  # the end, once nobody can write any more


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["speed"], "invalid choice: 'speed'"),
        (["ppo", "--tasks", "Pong"], "--tasks: invalid choice: 'Pong'"),
        (["ppo", "--against", "docs"], "docs: is not a checkout"),
        (["ppo", "--external", "a"], "must be NAME=COMMAND"),
    ],
)
def test_bad_input(arguments, text, monkeypatch, refused):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *arguments])
    assert text in refused(benchmark.main)


TEXT = """HloModule example

%rows (x: f32[1000,10], i: s32[]) -> f32[1,10] {
  %x = f32[1000,10]{1,0} parameter(0)
  %i = s32[] parameter(1)
  ROOT %row = f32[1,10]{1,0} dynamic-slice(%x, %i, %i), dynamic_slice_sizes={1,10}
}

%body (carry: (s32[], f32[1000,10])) -> (s32[], f32[1000,10]) {
  %carry = (s32[], f32[1000,10]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%carry), index=0
  %y = f32[1000,10]{1,0} get-tuple-element(%carry), index=1
  %fusion = f32[1,10]{1,0} fusion(%y, %j), kind=kLoop, calls=%rows
  ROOT %both = (s32[], f32[1000,10]{1,0}) tuple(%j, %y)
}

%more (carry: (s32[], f32[1000,10])) -> pred[] {
  %carry = (s32[], f32[1000,10]{1,0}) parameter(0)
  ROOT %never = pred[] constant(false)
}

ENTRY %main (a: (s32[], f32[1000,10])) -> (s32[], f32[1000,10]) {
  %a = (s32[], f32[1000,10]{1,0}) parameter(0)
  %known = (s32[], f32[1000,10]{1,0}) while(%a), condition=%more, body=%body, TRIPS
  ROOT %dynamic = (s32[], f32[1000,10]{1,0}) while(%known), condition=%more, body=%body
}
""".replace("TRIPS", 'backend_config={"known_trip_count":{"n":"30"}}')


def test_costs_of_a_program_for_a_gpu():
    row = 2 * 4 * 10 + 4  # of the matrix, only a row is read and written; and the index
    assert hlo.Program(TEXT).cost(30) == hlo.Cost(1, 0, 0, row)
    assert hlo.Program(TEXT).cost() == hlo.Cost(31, 0, 1, 31 * row)
    # In a graph, each iteration passes the condition of its loop.
    assert hlo.Program(TEXT, {"known", "fusion"}).cost(30) == hlo.Cost(2, 2, 0, row)
