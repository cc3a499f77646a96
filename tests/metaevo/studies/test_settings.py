"""Settings of an evolution: evolved slots and hand-written slots."""

import dataclasses

import jax.numpy as jnp
import pytest

import metaevo
from metaevo.components import discovery, parts, registry
from metaevo.components.component import Component
from metaevo.config import ConfigError, from_dict, to_dict
from metaevo.runs.run import check_same
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.settings import make_experiment
from metaevo.training.settings import make_task, training_class
from purerl.parts import losses
from tests.metaevo.evolving import settings_of


def test_other_slots_are_filled_by_name():
    settings = settings_of({"evolve": "drift", "value_loss": "huber", "make_optimizer": "sgd"})
    assert not hasattr(settings, "policy_loss")
    fixed = make_experiment(settings).fixed
    context = type("Context", (), {"hyperparams": settings.hyperparams})
    arguments = context, 9.0, 1.0, 1.0
    assert fixed["value_loss"]("of others", *arguments) == losses.huber(None, *arguments)
    plain = make_experiment(settings_of({"evolve": "drift"})).fixed
    assert plain["value_loss"](None, *arguments) == losses.squared(None, *arguments) == 32.0
    task = make_experiment(settings).task({"policy_loss": losses.dpo}, None)
    assert task.learner.policy_loss is losses.dpo


def test_a_run_is_resumed_with_the_same_functions_only():
    settings = settings_of({"evolve": "drift"})
    saved = to_dict(settings)
    del saved["tasks"]  # a run of an earlier version
    assert check_same(saved, settings, ()).make_optimizer == "adam"
    other = settings_of({"evolve": "drift", "make_optimizer": "sgd"})
    with pytest.raises(ConfigError, match="make_optimizer: 'adam' -> 'sgd'"):
        check_same(saved, other, ())


def test_a_schedule_of_unknown_hyperparams_is_refused():
    """PPO's linear one moves the clip; the same names are known to both learners."""
    complaint = "^schedule = 'linear': schedule.* fails: .* no attribute 'clip_epsilon'$"
    raw = {"learner": "dqn", "schedule": "linear"}
    with pytest.raises(ConfigError, match=complaint):
        make_task(from_dict(training_class(raw), raw))
    raw |= {"evolve": "value_loss"}
    with pytest.raises(ConfigError, match=complaint):
        make_experiment(settings_of(raw))


class Loss:
    SLOT = "value_loss"
    Config = dataclasses.make_dataclass("Config", [], frozen=True)

    @staticmethod
    def make(config):
        return Component(lambda key: {"a": jnp.zeros(())}, lambda meta, *others: meta["a"])


@pytest.fixture
def own():
    """The name of a component that is given as a class, in this process."""
    name = registry.name_of(Loss)
    yield name
    registry.IMPORTED.pop(name, None)


def test_a_class_is_not_stored_in_a_run(own, tmp_path):
    run = RunDirectory.create(tmp_path, "")
    evolved = parts.make(own, Loss.Config())
    discovery.save(run, evolved, {"a": jnp.zeros(())}, 1)
    assert callable(metaevo.load(run.path)[0])
    registry.IMPORTED.pop(own)
    with pytest.raises(ConfigError, match=r"no source code .*Loss.*pass it"):
        metaevo.load(run.path)
    assert callable(metaevo.load(run.path, code=Loss)[0])


def test_a_changed_class_needs_another_run(own, tmp_path, monkeypatch):
    run, evolved = RunDirectory.create(tmp_path, ""), parts.make(own, Loss.Config())
    before = discovery.digests_of(evolved)
    assert before.keys() == {"Loss"}
    for known in (before, {}):  # earlier versions kept none
        discovery.keep_sources(run, evolved, known)
    monkeypatch.setattr(registry, "class_source", lambda cls: b"changed")
    with pytest.raises(ConfigError, match="cannot continue with other code: Loss"):
        discovery.keep_sources(run, evolved, before)


def test_a_list_of_one_is_a_dict_of_one():
    settings = settings_of({"evolve": ["drift"], "component": {"drift": {"hidden_size": 3}}})
    assert settings.component.drift.hidden_size == 3
    evolved = make_experiment(settings).evolved
    assert evolved.is_dict
    assert list(evolved.parts) == ["drift"]
