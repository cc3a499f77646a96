"""Settings with sections that depend on other settings."""

from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.config.sections import specialised
from metaevo.studies.settings import EvolveSettings, experiment_class
from metaevo.studies.sweeps import sweep_class
from metaevo.training.settings import TrainSettings, training_class
from tests.metaevo.example_config import Schedule, Train


@dataclass(frozen=True, kw_only=True)
class Settings:
    name: str
    schedule: Schedule = field(default_factory=Schedule)
    train: Any


def test_open_sections_are_validated_and_the_order_is_kept():
    made = specialised(Settings, {"train": Train}, {"name": "a"})
    settings = from_dict(made, {"train": {"num_envs": 6}})
    assert isinstance(settings, Settings)
    assert [*to_dict(settings)] == ["name", "schedule", "train"]
    assert settings == made(name="a", schedule=Schedule(), train=Train(num_envs=6))
    with pytest.raises(ConfigError, match=r"train\.num_envs = 0: must be at least 1"):
        from_dict(made, {"train": {"num_envs": 0}})


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (experiment_class({"learner": "dqn"}, "value_loss"), EvolveSettings),
        (training_class({"learner": "q_learning"}), TrainSettings),
        (sweep_class({}), TrainSettings),
        (sweep_class({"evolve": "drift"}), EvolveSettings),
    ],
)
def test_generated_classes_match_the_written_ones(made, written):
    """Only what belongs to a learner or a component is more than mypy knows."""
    assert issubclass(made, written)
    kinds = {each.name: each.type for each in fields(made)}
    generic = {"train", "hyperparams", "component"}
    for each in fields(written):
        assert kinds[each.name] is each.type or each.name in generic
