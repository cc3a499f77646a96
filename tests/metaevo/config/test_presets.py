"""Presets by path and by name."""

from pathlib import Path

import pytest

from metaevo.config import ConfigError, load_yaml, presets

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


def test_a_file_goes_before_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "ppo_cartpole").write_text("seeds: 3")
    assert load_yaml(presets.find("train/ppo_cartpole")) == {"seeds": 3}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("evolve_value_loss/standart", "did you mean the preset evolve_value_loss/standard"),
        ("configs/evolve_value_loss/standart.yaml", "evolve_value_loss/standard"),
        ("standard", "evolve_optimizer/standard or evolve_value_loss/standard?"),
        ("train/nothing_like_it", "the presets there: train/dqn_cartpole, "),
    ],
)
def test_what_is_nearly_one_is_named(text, hint):
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        presets.find(text)
    assert hint in str(caught.value)


def test_an_installed_copy_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "__file__", str(tmp_path / "metaevo" / "config" / "presets.py"))
    assert presets.folder() == tmp_path / "configs"
    (tmp_path / "metaevo" / "presets").mkdir(parents=True)
    assert presets.folder() == tmp_path / "metaevo" / "presets"


def test_a_file_that_is_like_no_preset_is_left_to_who_reads_it():
    assert presets.find("../../nothing") == Path("../../nothing")
