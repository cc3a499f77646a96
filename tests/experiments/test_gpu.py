"""The script that measures on a GPU: its commands are real ones, and its time limits hold."""

import json
import shlex
import sys

import pytest

from experiments import benchmark
from experiments.benchmarks import gpu
from metaevo.config import load_yaml


def test_its_commands_are_understood(tmp_path, monkeypatch):
    assert sum(step.minutes for step in gpu.STEPS) <= gpu.MINUTES
    for step in gpu.STEPS:
        _, *words = gpu.words(step, tmp_path)
        if words[0] == gpu.BENCHMARK:
            monkeypatch.setattr(sys, "argv", words)
            assert benchmark.parse().json.parent == tmp_path
        elif "--config" in words:
            assert load_yaml(gpu.ROOT / words[words.index("--config") + 1])


def test_it_needs_a_gpu(tmp_path, capsys):
    with pytest.raises(SystemExit):
        gpu.main(["--output", str(tmp_path / "results")])
    assert capsys.readouterr().err.startswith("error: JAX sees no GPU here")


def test_each_command_ends_in_its_time_and_the_last_are_left_out(tmp_path):
    def step(name, code, minutes=1.0):
        return gpu.Step(name, minutes, f"-c {shlex.quote(code)}")

    steps = (
        step("good", "print('measured')"),
        step("bad", "raise SystemExit(3)"),
        step("long", "import time; time.sleep(60)", minutes=0.01),
    )
    assert gpu.run(steps, tmp_path, minutes=5) == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [each["how"] for each in summary["steps"]] == ["done", "failed", "out of time"]
    assert (tmp_path / "good.log").read_text() == "measured\n"
    assert gpu.run(steps[:1], tmp_path, minutes=0) == 0
    assert json.loads((tmp_path / "summary.json").read_text())["steps"][0]["how"] == "left out"
