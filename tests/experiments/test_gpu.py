"""The script that measures on a GPU: its commands are real ones, and failures are reported."""

import sys

import pytest

from experiments import benchmark
from experiments.benchmarks import gpu
from metaevo.config import load_yaml


def test_its_commands_are_understood(tmp_path, monkeypatch):
    assert sum(minutes for minutes, _ in gpu.STEPS.values()) <= 40
    for name in gpu.STEPS:
        words = gpu.words(name, tmp_path)
        if words[0] == gpu.BENCHMARK:
            monkeypatch.setattr(sys, "argv", words)
            assert benchmark.parse().save.parent == tmp_path
        elif "--config" in words:
            assert load_yaml(gpu.ROOT / words[words.index("--config") + 1])


def test_it_needs_a_gpu(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        gpu.main([str(tmp_path / "results")])
    assert caught.value.code == 2
    assert "no GPU" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_each_step_ends_in_its_time_and_a_failure_is_the_exit_code(tmp_path, monkeypatch, capsys):
    steps = {
        "good": (1, "-c \"print('measured')\""),
        "long": (0.01, "-c 'import time; time.sleep(60)'"),
    }
    monkeypatch.setattr(gpu, "STEPS", steps)
    assert gpu.run(tmp_path) == 0
    assert (tmp_path / "good.log").read_text() == "measured\n"
    monkeypatch.setattr(gpu, "STEPS", {"bad": (1, "-c 'raise SystemExit(3)'"), **steps})
    assert gpu.run(tmp_path) == 1
    ended = capsys.readouterr().out.split()
    assert ended == [
        "good:", "done", "long:", "out", "of", "time",
        "bad:", "failed", "good:", "done", "long:", "out", "of", "time",
    ]  # fmt: skip
