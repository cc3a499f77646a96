"""experiments/benchmark.py at sizes that measure nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent.parent / "experiments" / "benchmark.py"


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, timeout=300, env=os.environ, check=False,
    )  # fmt: skip


def test_ppo_prints_a_ratio(tmp_path):
    file = tmp_path / "results.json"
    done = benchmark(
        "ppo", "--agents", "2", "--frames", "2048", "--repeats", "1", "--json", str(file)
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "ours / flat vmap  " in line]
    assert float(line.split()[-1]) > 0
    results = json.loads(file.read_text())
    assert results["machine"]["jax"]
    names = [row["variant"] for row in results["ppo"]["rows"]]
    assert names == [
        "ours", "flat vmap", "flat vmap, single-threaded",
        "ratio to flat vmap", "ratio to flat vmap, single-threaded",
    ]  # fmt: skip
    assert all(0 < row["min"] <= row["median"] <= row["max"] for row in results["ppo"]["rows"])


def test_q_learning_prints_ratios_and_targets():
    done = benchmark("q-learning", "--agent-steps", "1000", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "target" in line]
    assert [line.split()[0] for line in lines] == ["1", "30", "1,024"]
    assert all(
        f"(target {goal}: " in line for goal, line in zip([40, 120, 400], lines, strict=True)
    )


@pytest.mark.slow
def test_dqn_prints_a_ratio_and_may_lack_peers():
    done = benchmark("dqn", "--agents", "2", "--frames", "4000", "--repeats", "1", "--peers")
    assert done.returncode == 0, done.stderr
    assert "ours / flat vmap" in done.stdout
    assert ("rejax is not installed" in done.stdout) or ("ours / rejax" in done.stdout)


@pytest.mark.slow  # make test-slow; the quick preset's generations take seconds each
def test_evolution_prints_frames_and_overhead():
    done = benchmark("evolution", "--generations", "1", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert "frames per second" in done.stdout
    assert "ask, tell and host: ms a generation" in done.stdout


@pytest.mark.slow
def test_sweep_prints_trials_a_minute_and_ratios():
    done = benchmark("sweep", "--trials", "8", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert "trials a minute" in done.stdout
    assert done.stdout.count("(target 5.0: ") == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["speed"], "unknown suite speed"),
        (["--agents", "0"], "must be at least 1"),
        (["--generations", "65"], "at most 64"),
        (["--json", "missing/results.json"], "does not exist"),
    ],
)
def test_bad_input(arguments, text):
    done = benchmark(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
