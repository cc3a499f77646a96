import json

import numpy as np
import pytest

from experiments.benchmarks import coverage
from metaevo import Budget


def test_the_tables_of_a_bank_of_noise(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    names = "learned", *coverage.HAND_WRITTEN
    shape = 2, coverage.SETTINGS + 1, coverage.SEEDS
    noise = {name: rng.normal(10.0 + 2 * (name == "learned"), 1.0, shape) for name in names}
    np.savez(tmp_path / "bank.npz", **noise)
    small = Budget(settings=64, screening_seeds=1, finalists=4, selection_seeds=8, seeds=16)
    monkeypatch.setattr(coverage, "BUDGETS", dict.fromkeys(coverage.BUDGETS, small))
    argv = ["coverage", "--bank", str(tmp_path / "bank.npz"), "--redraws", "3"]
    monkeypatch.setattr("sys.argv", [*argv, "--save", str(tmp_path / "found.json")])
    coverage.main()
    differences, verdicts = json.loads((tmp_path / "found.json").read_text())["tables"]
    assert len(differences["rows"]) == len(verdicts["rows"]) == 2 * 4
    for row, claims in zip(differences["rows"], verdicts["rows"], strict=True):
        pooled = row[0].endswith("two tasks")
        truth = float(row[3].split()[0])
        assert truth == pytest.approx(0.19 if pooled else 2.0, rel=0.5)
        assert claims[2] == "100.0%"
