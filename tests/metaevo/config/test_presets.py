"""Presets by path and by name."""

from pathlib import Path

import pytest

from metaevo.config import load_yaml, presets

ROOT = Path(__file__).parent.parent.parent.parent


def test_all_shipped_files_have_a_name():
    files = {path.relative_to(ROOT / "configs") for path in (ROOT / "configs").rglob("*.yaml")}
    assert set(presets.names()) == {path.with_suffix("").as_posix() for path in files}


@pytest.mark.parametrize(
    "text", ["train/ppo_cartpole", "train/ppo_cartpole.yaml", "configs/train/ppo_cartpole.yaml"]
)
def test_a_preset_is_found_from_anywhere(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_yaml(presets.find(text)) == load_yaml(ROOT / "configs/train/ppo_cartpole.yaml")


def test_a_file_is_preferred_to_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "ppo_cartpole").write_text("seeds: 3")
    assert load_yaml(presets.find("train/ppo_cartpole")) == {"seeds": 3}
