"""Learning curves of this machine."""

import json
from functools import partial

import numpy as np
import pytest

from experiments.benchmarks import curves


def test_bad_input(refused):
    assert "pppo" in refused(curves.main, ["pppo"])
    assert "--agents 1" in refused(curves.main, ["--agents", "1"])


@pytest.mark.long
def test_curves_hold_the_episodes_of_each_tenth(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "TRAININGS", {"ppo": partial(curves._ppo, 10 * 512)})
    found = curves.curve("ppo", 3)
    assert found.shape == (3, 10)
    assert (found >= 8).all()  # steps; no pole falls sooner
    assert (found <= 500).all()
    path = tmp_path / "curves.json"
    assert curves.main(["--agents", "3", "--save", str(path)]) == 0
    [[name, platform, _, agents, *means]] = json.loads(path.read_text())["tables"][0]["rows"]
    assert (name, platform, agents) == ("ppo", "cpu", "3")
    shown = [float(text.split()[0]) for text in means]
    np.testing.assert_allclose(shown, found.mean(0)[[1, 4, 9]], atol=0.051)
