import importlib.util
import json

import pytest

from experiments import reproduce
from experiments.reproduce import COMPARISONS


@pytest.fixture
def reproduce_tiny(tmp_path, capsys):
    def run(name, *argv):
        path = tmp_path / name
        assert reproduce.main([name, *map(str, argv), "--run-dir", str(path)]) == 0
        assert COMPARISONS[name].published in capsys.readouterr().out
        assert (path / "learning_curves.png").is_file()
        results = json.loads((path / "results.json").read_text())
        assert results["machine"]["cores"] >= 1
        (table,) = results["tables"]
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        assert rows[0]["speedup"] == "1x"
        assert all(float(row["steps/s"].replace(",", "")) > 0 for row in rows)
        return {row["variant"]: row for row in rows}

    return run


@pytest.mark.long
def test_cartpole_dqn(reproduce_tiny):
    rows = reproduce_tiny("cartpole-dqn", "--frames", 800, "--agents", 1)
    assert rows["compiled, 1 agent"]["agents that got there"] == "0 of 1"


def test_grid_world(reproduce_tiny):
    rows = reproduce_tiny("grid-world", "--agents", 1, "--frames", 2000)
    assert list(rows) == ["Python loop, NumPy", "Python loop, compiled step", "compiled, 1 agent"]
    assert [rows[name]["steps"] for name in rows] == ["2,000", "100", "2,000"]


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("grid-wrld", ["'grid-wrld'", *COMPARISONS]),
        ("grid-world --agents 0", ["agents", "greater than 0"]),
        ("cartpole-dqn --frames 400", ["learning_starts = 500", "400"]),
        ("ppo-cartpole --no-pytorch --frames 100", ["total_timesteps = 100", "512"]),
        ("ppo-cartpole", ["pip install -e '.[torch]'"]),
    ],
)
def test_invalid_settings(line, texts, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # an extra is missing
    path = tmp_path / "run"
    found = refused(reproduce.main, [*line.split(), "--run-dir", str(path)])
    assert all(text in found for text in texts)
    assert not path.exists()
