"""What an unknown key or a missing file is taken for."""

from pathlib import Path

import pytest

from metaevo.config import ConfigError, from_dict, load_yaml
from metaevo.studies.settings import experiment_class
from metaevo.training.settings import training_class

ROOT = Path(__file__).parent.parent.parent


def evolving(raw):
    return experiment_class(raw, "value_loss")


@pytest.mark.parametrize(
    ("settings", "raw", "hint"),
    [
        (training_class, {"learning_rate": 1.0}, "did you mean 'hyperparams.learning_rate'?"),
        (
            evolving,
            {"learning_rate": 1.0},
            "did you mean 'hyperparams.learning_rate' or 'strategy.learning_rate'?",
        ),
        (training_class, {"env": "CartPole-v1"}, "did you mean 'task.env'?"),
        (training_class, {"train": {"lr": 1.0}}, "did you mean 'hyperparams.learning_rate'?"),
        (training_class, {"devices": 4}, "did you mean 'run.num_devices'?"),
        (training_class, {"lerner": "ppo"}, "did you mean 'learner'?"),
        (evolving, {"seeds": 8}, "a setting of experiments/train.py; is this a config for it?"),
        (training_class, {"strategy": {}}, "a setting of experiments/evolve.py"),
        (evolving, {"space": {}}, "a setting of experiments/sweep.py"),
    ],
)
def test_unknown_keys(settings, raw, hint):
    with pytest.raises(ConfigError) as caught:
        from_dict(settings(raw), raw)
    assert f"({hint}" in str(caught.value)


def test_a_key_like_no_other_has_no_hint():
    with pytest.raises(ConfigError, match="unknown key 'xyzzy'; allowed: channel, evaluation, "):
        from_dict(training_class({}), {"xyzzy": 1})


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("standart.yaml", "configs/evolve_value_loss/standard.yaml"),
        ("configs/train/ppo_cartpol.yaml", "configs/train/ppo_cartpole.yaml"),
    ],
)
def test_missing_files(path, meant, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        load_yaml(path)
    assert meant in str(caught.value).partition("did you mean")[2]


def test_a_file_like_no_other_has_no_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_yaml("standart.yaml")
    assert str(caught.value) == "standart.yaml: cannot be read: No such file or directory"
