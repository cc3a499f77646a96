"""experiments/benchmark.py at sizes that measure nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.benchmark import parse
from experiments.benchmarks import tasks
from experiments.benchmarks.comparison import Comparison
from experiments.benchmarks.processes import Variant, measure

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).resolve().parent.parent.parent / "experiments" / "benchmark.py"
FAKE = """
import json, sys
seconds = float(sys.argv[1])
print(json.dumps({"layout": "fake"}), flush=True)
for _ in sys.stdin:
    print(json.dumps({"seconds": seconds, "cpu_seconds": 2 * seconds}), flush=True)
"""
"""A worker that says how long it took and does nothing."""


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, timeout=550, env=os.environ, check=False,
    )  # fmt: skip


def fake(seconds):
    return Variant([sys.executable, "-c", FAKE, str(seconds)])


def table(output):
    """The rows of the tables in markdown, as lists of cells."""
    rows = [line.strip("| ").split(" | ") for line in output.splitlines() if line.startswith("|")]
    return [row for row in rows if not row[0].startswith("---")]


def test_ppo_is_compared_with_another_worker(tmp_path):
    saved, script = tmp_path / "ppo.json", tmp_path / "fake.py"
    script.write_text(FAKE)
    done = benchmark(
        "ppo", "--tasks", "CartPole-v1", "--agents", "2", "--frames", "2048", "--repeats", "1",
        "--only", "other", "--external", f"other={sys.executable} {script} {{agents}}",
        "--save", str(saved),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = json.loads(saved.read_text())
    assert page["command"].startswith("python experiments/benchmark.py ppo --tasks CartPole-v1")
    assert not {"--save", str(script)} & set(page["command"].split())
    assert page["machine"]["jax"]
    (kept,) = page["tables"]
    assert [kept["columns"], *kept["rows"]] == table(done.stdout)
    ours, other = (dict(zip(kept["columns"], row, strict=True)) for row in kept["rows"])
    assert (ours["variant"], other["variant"]) == ("ours", "other")
    assert (ours["task"], ours["agents"]) == ("CartPole-v1", "2")
    rate, *_ = other["steps/s: median [min, max]"].partition(" ")
    assert float(rate.replace(",", "")) == pytest.approx(2048 / 2, rel=0.01)
    assert float(ours["compile, s"]) > 0
    assert float(ours["peak MiB"].replace(",", "")) > 64


def test_variants_are_compared(capsys):
    comparison = Comparison("steps", "agents")
    none = Variant([sys.executable, "-c", """print('{"skip": "no such work"}')"""])
    comparison.case({"ours": fake(0.5), "other": fake(2.0), "none": none}, 2, 7, amount=100)
    assert [row[1:6] for row in comparison.table.rows] == [
        ["ours", "200 [200, 200]", "100 [100, 100]", "", ""],
        ["other", "50 [50, 50]", "25 [25, 25]", "4 [4, 4]", "4 [4, 4]"],
    ]
    assert "7, none is left out: no such work" in capsys.readouterr().err
    inverse = Comparison("steps", "agents", faster_than="other")
    inverse.case({"ours": fake(0.5), "other": fake(2.0)}, 1, 7, amount=100)
    assert [row[4] for row in inverse.table.rows] == ["4 [4, 4]", ""]


def test_variants_are_measured_in_turns(tmp_path):
    log = tmp_path / "log"
    code = FAKE.replace(
        "    print", "    print(sys.argv[1], file=open(sys.argv[2], 'a'))\n    print"
    )
    variants = {(n,): Variant([sys.executable, "-c", code, n, str(log)]) for n in ("1.0", "2.0")}
    measured, failed = measure(variants, 2, at_once=True)
    assert log.read_text().split() == ["1.0", "2.0", "1.0", "2.0"]
    assert measured["2.0",].samples == [{"seconds": 2.0, "cpu_seconds": 4.0}] * 2
    assert failed == []


def test_a_failing_variant_is_reported_and_others_measured(capsys):
    comparison = Comparison("steps", "agents")
    exits, mumbles, ends = (
        Variant([sys.executable, "-c", code])
        for code in ("raise SystemExit(3)", "print('hello')", "print('{}', flush=True); input()")
    )
    variants = {"exits": exits, "ours": fake(1.0), "mumbles": mumbles, "ends": ends}
    comparison.case({**variants, "other": fake(1.0)}, 1, 7, amount=1)
    comparison.case({"ours": exits, "other": fake(1.0)}, 1, 8, amount=1)  # without a reference
    failed = [(7, "exits"), (7, "mumbles"), (7, "ends"), (8, "ours")]
    assert comparison.failures == failed
    rows = [row[:2] for row in comparison.table.rows]
    assert rows == [["7", "ours"], ["7", "other"], ["8", "other"]]
    assert capsys.readouterr().err.count("error: ") == len(failed)


def test_a_measurement_is_at_most_a_whole_training():
    cartpole = tasks.WORK["ppo", "CartPole-v1"]
    assert cartpole.updates(1, None) == 500_000 // 512
    assert cartpole.updates(256, None) == 8
    assert cartpole.updates(2048, None) == tasks.MIN_UPDATES
    assert cartpole.updates(1, 2048) == 4
    assert cartpole.updates(8, 2048) == 2


SMALL = {
    "learned-rules": (
        ["--tasks", "GridWorlds", "--agents", "1", "--frames", "2560"], ["ours", "a2c"]
    ),
    "dqn": (["--agents", "2", "--frames", "4000"], ["ours"]),
    "evolution": (
        ["--shape", "ppo", "blog", "--population", "4", "--agent-steps", "2048",
         "--generations", "1"],
        ["ours"] * 2,
    ),
    "games": (["--agents", "4"], ["ours"] * 2),
    "devices": (
        ["--agents", "1", "8", "--frames", "1024"],
        ["1 device", "2 devices", "4 devices", "8 devices"] * 2,
    ),
    "sweep": (
        ["--trials", "8"],
        ["ours", "one by one", "Optuna calls train", "Optuna, compiled each time"],
    ),
    "programs": (["--only", "different", "--agent-steps", "100"], ["function", "program"]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("suite", SMALL)
def test_a_suite_measures_all_its_variants(suite):
    arguments, variants = SMALL[suite]
    done = benchmark(suite, *arguments, "--repeats", "1")
    assert done.returncode == 0, done.stderr
    columns, *rows = table(done.stdout)
    assert [row[columns.index("variant")] for row in rows] == variants


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["speed"], "unknown speed"),
        (["--agents", "0"], "at least 1"),
        (["--save", "missing/results.json"], "missing/results.json"),
        (["--tasks", "Pong"], "--tasks: invalid choice: 'Pong'"),
        (["--only", "nobody"], "unknown nobody"),
        (["dqn", "--tasks", "Breakout-MinAtar"], "dqn has none of these tasks"),
        (["--external", "a=no_such_program_"], "there is no program no_such_program_"),
        (["--external", "a=echo {speed}"], "'speed'; fields: {suite}, {task}"),
    ],
)
def test_bad_input(arguments, text, monkeypatch, refused):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *arguments])
    assert text in refused(parse)
