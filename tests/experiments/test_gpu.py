"""The script that measures on a GPU: its commands are real ones."""

import sys

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
